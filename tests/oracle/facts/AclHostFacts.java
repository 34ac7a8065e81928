import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.server.authorizer.internals.CidrUtils;

/** Prints, as JSON, what CidrUtils says of hosts of ACLs: a line each, with an error or the addresses in the block. */
public class AclHostFacts {
    static final String[] HOSTS = {
        "10.0.0.0/8", "10.1.2.3/8", "192.168.1.0/24", "192.168.1.7/32", "0.0.0.0/0", "255.255.255.255/32", "10.0.0.0/31",
        "10.0.0.0/01", "010.000.0.0/8", "0.0.0.0/8", "0.0.0.0/32", "10.0.0.0/33", "10.0.0.0/99", "10.0.0.0/100",
        "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/8 ", " 10.0.0.0/8", "10.0.0/8", "10.0.0.0.0/8", "256.0.0.0/8",
        "10.0.0.999/8", "300.300.0.0/99", "/8", "/", "a/8", "host.example/24", "10.0.0.0/8/8", "10.0.0.0/a", "*/8",
        "2001:db8::/32", "2001:db8::1/32", "2001:DB8::/32", "::/0", "::1/128", "fe80::/10", "2001:db8::/129", "2001:db8::/-1",
        "2001:db8::/+32", "2001:db8::/032", "2001:db8::/", "2001:db8::/a", "2001:db8::/99999999999", "2001:db8::/32/1",
        "2001:db8/32", "2001:db8:::/32", "2001:db8::g/32", "[2001:db8::]/32", "[2001:db8::/32", "2001:00db8::/32",
        "2001:10db8::/32", "1:2:3:4:5:6:7:8/64", "1:2:3:4:5:6:7/64", "1:2:3:4:5:6:7:8:9/64", "1::2:3:4:5:6:7:8/64",
        "::ffff:10.0.0.0/104", "::10.0.0.0/104", "::010.0.0.0/104", "::10.0.0/104", "::ffff:0:0/96", "64:ff9b::10.0.0.0/96",
        "fe80::1%1/64", "fe80::1%/64", "fe80::1%no-such-interface/64", "10.0.0.0/2:4", "10.0.0.0:9092/8", ":/8", "::/",
        "::/00", "::/128", "0:0:0:0:0:0:0:0/0", "host:name/8", "1.2.3.4::/8",
    };
    static final String[] ADDRESSES = {
        "10.0.0.0", "10.0.0.1", "10.255.255.255", "11.0.0.0", "192.168.1.7", "192.168.2.7", "0.0.0.0", "0.0.0.1",
        "255.255.255.255", "127.0.0.1", "0:0:0:0:0:0:0:0", "0:0:0:0:0:0:0:1", "2001:db8:0:0:0:0:0:1",
        "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9:0:0:0:0:0:0", "fe80:0:0:0:0:0:0:1", "fe80:0:0:0:0:0:0:1%1",
        "1:2:3:4:ffff:0:0:0", "64:ff9b:0:0:0:0:a00:1", "0:0:0:0:0:0:a00:1", "unknown", "",
    };

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        for (String host : HOSTS) {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("host", host);
            try {
                CidrUtils.validate(host);
                line.put("error", null);
            } catch (IllegalArgumentException error) {
                line.put("error", error.getMessage());
            }
            TreeSet<String> in = new TreeSet<>();
            for (String address : ADDRESSES) if (CidrUtils.isInRange(address, host)) in.add(address);
            line.put("in", List.copyOf(in));
            line.put("of", ADDRESSES);
            System.out.println(json.writeValueAsString(line));
        }
    }
}
