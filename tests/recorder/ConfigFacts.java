import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;

/**
 * Prints, as JSON, what the ConfigDefs of the jars on the class path say of every setting: a line each.
 *
 * `takes` has a digit for each text of PROBES: 1 if ConfigDef parses it and the validator lets it pass. `range` has the
 * least and the largest number that is taken; the numbers between them are taken, too, but where a probe says otherwise.
 */
public class ConfigFacts {
    static final String[] PROBES = {
        "", " ", "0", "1", "-1", "-2", "-3", "2", " 7 ", "+5", "10", "13", "14", "1024", "1048576", "8388608", "2147483647",
        "2147483648", "9223372036854775807", "9223372036854775808", "0.5", "1.5", "1e3", "NaN", "1_000", "0x10", "true",
        "TRUE", " false ", "yes", "abc", "a,b", "a, a", "a,,b", ",", "*", "0:1,1:2", "0:1,", "compact", "delete",
        "compact,delete", "delete,delete", "producer", "gzip", "GZIP", "none", "uncompressed", "CreateTime",
        "LogAppendTime", "createtime", "PLAINTEXT", "SASL_SSL", "GSSAPI", "required", "requested", "broker", "controller",
        "broker,controller", "broker,broker", "1@localhost:9093", "localhost:9092", "PLAINTEXT://:9092",
        "PLAINTEXT://localhost:9092,PLAINTEXT://localhost:9093", "TLSv1.3", "TLSv1.2,TLSv1.3", "PEM", "JKS", "/tmp", "/a,/b",
        "java.lang.String", "no.such.Class", "earliest", "latest", "read_committed", "bidirectional", "4.0", "4.3-IV0",
        "3.9.1", "DEFAULT", "RULE:a/b/", "INFO", "debug", "\u0669", "classic", "uniform", "\u00a05",
    };

    static final Method PARSE = parser();

    public static void main(String[] arguments) throws Exception {
        Map<String, ConfigDef> groups = new TreeMap<>();
        groups.put("server", (ConfigDef) constant("org.apache.kafka.server.config.AbstractKafkaConfig", "CONFIG_DEF"));
        groups.put("topic", called("org.apache.kafka.storage.internals.log.LogConfig", "configDefCopy"));
        groups.put("metrics", called("org.apache.kafka.server.metrics.ClientMetricsConfigs", "configDef"));
        if (!isOld()) groups.put("group", ofGroups());
        for (String quotas : new String[] {"QuotaConfig", "QuotaConfigs"}) {
            String owner = "org.apache.kafka.server.config." + quotas;
            groups.putIfAbsent("quotas of brokers", called(owner, "brokerQuotaConfigs"));
            groups.putIfAbsent("quotas of users and clients", called(owner, "userAndClientQuotaConfigs"));
            groups.putIfAbsent("quotas of addresses", called(owner, "ipConfigs"));
        }
        ObjectMapper json = new ObjectMapper();
        json.getFactory().enable(JsonGenerator.Feature.ESCAPE_NON_ASCII);
        System.out.println(json.writeValueAsString(Map.of("probes", PROBES, "dynamic", dynamic())));
        for (Map.Entry<String, ConfigDef> group : groups.entrySet()) {
            if (group.getValue() == null) continue;
            for (ConfigDef.ConfigKey key : new TreeMap<>(group.getValue().configKeys()).values()) {
                System.out.println(json.writeValueAsString(factsOf(group.getKey(), key)));
            }
        }
    }

    static Map<String, Object> factsOf(String group, ConfigDef.ConfigKey key) throws Exception {
        Map<String, Object> facts = new TreeMap<>();
        facts.put("of", group);
        facts.put("name", key.name);
        facts.put("type", key.type.name());
        facts.put("importance", key.importance.name());
        facts.put("internal", key.internalConfig);
        facts.put("validator", key.validator == null ? null : key.validator.toString().replaceAll("@[0-9a-f]+$", ""));
        facts.put("has_default", key.hasDefault());
        facts.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
        StringBuilder takes = new StringBuilder();
        for (String probe : PROBES) takes.append(isTaken(key, probe) ? '1' : '0');
        facts.put("takes", takes.toString());
        long[] limits = switch (key.type) {
            case SHORT -> new long[] {Short.MIN_VALUE, Short.MAX_VALUE};
            case INT -> new long[] {Integer.MIN_VALUE, Integer.MAX_VALUE};
            case LONG -> new long[] {Long.MIN_VALUE, Long.MAX_VALUE};
            default -> null;
        };
        if (limits != null) {
            long good = taken(key);
            facts.put("range", List.of(border(key, good, limits[0]), border(key, good, limits[1])));
        }
        return facts;
    }

    /** A number that is taken. */
    static long taken(ConfigDef.ConfigKey key) throws Exception {
        if (key.hasDefault() && key.defaultValue != null) return ((Number) key.defaultValue).longValue();
        for (long each : new long[] {1, 0, 1 << 20, 100, 1000}) if (isTaken(key, Long.toString(each))) return each;
        throw new AssertionError(key.name);
    }

    /** The last number that is taken from `good`, which is taken, on the way to `end`. */
    static long border(ConfigDef.ConfigKey key, long good, long end) throws Exception {
        if (isTaken(key, Long.toString(end))) return end;
        long bad = end;
        while (Math.abs((double) good - (double) bad) > 1.5 || Math.abs(good - bad) != 1) {
            long middle = (good & bad) + ((good ^ bad) >> 1);
            if (middle == good || middle == bad) break;
            if (isTaken(key, Long.toString(middle))) good = middle;
            else bad = middle;
        }
        return good;
    }

    static boolean isTaken(ConfigDef.ConfigKey key, String text) throws Exception {
        try {
            PARSE.invoke(new ConfigDef(), key, text, true);
            return true;
        } catch (InvocationTargetException refused) {
            if (refused.getCause() instanceof ConfigException) return false;
            throw refused;
        }
    }

    static ConfigDef ofGroups() throws Exception {
        String owner = "org.apache.kafka.coordinator.group.GroupConfig";
        ConfigDef found = called(owner, "configDef");  // Until 4.2.
        return found != null ? found : (ConfigDef) constant(owner, "CONFIG_DEF");
    }

    /** Whether it is the last release that knows ZooKeeper. */
    static boolean isOld() {
        try {
            Class.forName("org.apache.kafka.server.config.ZkConfigs");
            return true;
        } catch (ClassNotFoundException newer) {
            return false;
        }
    }

    /** The names of settings that a running broker takes changes of. */
    static Collection<String> dynamic() throws Exception {
        try {
            return new TreeSet<>((Set<String>) constant("org.apache.kafka.server.config.DynamicBrokerConfig", "ALL_DYNAMIC_CONFIGS"));
        } catch (ClassNotFoundException older) { }  // Until 4.2.
        Object names = Class.forName("kafka.server.DynamicBrokerConfig").getMethod("AllDynamicConfigs").invoke(null);
        Class<?> converters = Class.forName("scala.jdk.javaapi.CollectionConverters");
        Method asJava = converters.getMethod("asJava", Class.forName("scala.collection.Set"));
        return new TreeSet<>((Set<String>) asJava.invoke(null, names));
    }

    static Method parser() {
        try {
            Method method = ConfigDef.class.getDeclaredMethod("parseValue", ConfigDef.ConfigKey.class, Object.class, boolean.class);
            method.setAccessible(true);
            return method;
        } catch (NoSuchMethodException missing) {
            throw new AssertionError(missing);
        }
    }

    static Object constant(String owner, String name) throws Exception {
        Field field = Class.forName(owner).getDeclaredField(name);
        field.setAccessible(true);
        return field.get(null);
    }

    /** What a static method without arguments returns; null where the release has none. */
    static ConfigDef called(String owner, String name) throws Exception {
        try {
            Method method = Class.forName(owner).getDeclaredMethod(name);
            method.setAccessible(true);
            return (ConfigDef) method.invoke(null);
        } catch (ClassNotFoundException | NoSuchMethodException missing) {
            return null;
        }
    }
}
