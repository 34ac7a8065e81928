import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.function.IntPredicate;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.DefaultDirProvider;
import org.apache.kafka.metadata.placement.PartitionAssignment;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Takes recorded decisions, a line each on standard input, and prints them as the classes of the jars on the class path
 * decide them: `kraft_pcb` (PartitionChangeBuilder) or `placement_striped` (StripedReplicaPlacer), as the argument says.
 */
public class Decisions {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode input = (ObjectNode) JSON.readTree(line);
            if (arguments[0].equals("placement_striped")) place(input);
            else change(input);
            System.out.println(JSON.writeValueAsString(input));
        }
    }

    // Placement.

    static void place(ObjectNode input) {
        List<UsableBroker> brokers = new ArrayList<>();
        for (int k = 0; k < input.get("brokers").size(); k++) {
            JsonNode rack = input.get("racks").get(k);
            Optional<String> named = rack.isNull() ? Optional.empty() : Optional.of(rack.asText());
            brokers.add(new UsableBroker(input.get("brokers").get(k).asInt(), named, input.get("fenced").get(k).asBoolean()));
        }
        ClusterDescriber cluster = new ClusterDescriber() {
            public Iterator<UsableBroker> usableBrokers() { return brokers.iterator(); }
            public Uuid defaultDir(int broker) { return Uuid.ZERO_UUID; }
        };
        PlacementSpec spec = new PlacementSpec(input.get("start_partition").asInt(), input.get("partitions").asInt(), input.get("rf").shortValue());
        input.putNull("out").putNull("error");
        try {
            ArrayNode out = JSON.createArrayNode();
            Random random = new Random(input.get("java_random_seed").asLong());
            for (PartitionAssignment each : new StripedReplicaPlacer(random).place(spec, cluster).assignments()) out.add(numbers(each.replicas()));
            input.set("out", out);
        } catch (RuntimeException error) {
            input.put("error", error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }

    // Partition changes.

    static void change(ObjectNode input) throws Exception {
        if (!input.get("error").isNull()) return;  // The reassignment was refused before there was a builder.
        PartitionRegistration partition = partition(input.get("partition"));
        Object builder = builder(input, partition);
        @SuppressWarnings("unchecked")
        Optional<ApiMessageAndVersion> built = (Optional<ApiMessageAndVersion>) called(builder, "build");
        input.put("record_version", built.map(ApiMessageAndVersion::version).orElse((short) -1));
        input.putNull("out").putNull("merged");
        if (built.isEmpty()) return;
        PartitionChangeRecord record = (PartitionChangeRecord) built.get().message();
        input.set("out", outOf(record));
        input.set("merged", merged(partition.merge(record)));
    }

    static Object builder(ObjectNode input, PartitionRegistration partition) throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.controller.PartitionChangeBuilder");
        MetadataVersion level = MetadataVersion.valueOf(input.get("metadata_version").asText());
        List<Object> given = new ArrayList<>(List.of(partition, Uuid.ONE_UUID, 0, (IntPredicate) mayLead(input)::contains, level, input.get("min_isr").asInt()));
        Constructor<?> constructor = type.getConstructors()[0];
        boolean elr = input.get("elr_enabled").asBoolean();
        if (constructor.getParameterCount() > given.size()) given.add(elr);  // From 4.3 on.
        Object builder = constructor.newInstance(given.toArray());
        set(builder, "setEligibleLeaderReplicasEnabled", elr);
        set(builder, "setZkMigrationEnabled", input.get("zk_migration").asBoolean());  // Until 3.9.
        set(builder, "setUseLastKnownLeaderInBalancedRecovery", input.get("use_last_known_leader").asBoolean());
        Map<Integer, Uuid> directories = new HashMap<>();
        input.get("default_dirs").fields().forEachRemaining(each -> directories.put(Integer.parseInt(each.getKey()), Uuid.fromString(each.getValue().asText())));
        set(builder, "setDefaultDirProvider", (DefaultDirProvider) directories::get);
        setElection(builder, input.get("election").asText());
        setList(builder, "setTargetIsr", input.get("target_isr"));
        setList(builder, "setTargetReplicas", input.get("target_replicas"));
        setList(builder, "setTargetRemoving", input.get("target_removing"));
        setList(builder, "setTargetAdding", input.get("target_adding"));
        setList(builder, "setUncleanShutdownReplicas", input.get("unclean_shutdown"));
        if (input.get("target_recovered").asBoolean()) set(builder, "setTargetLeaderRecoveryState", LeaderRecoveryState.RECOVERED);
        if (!input.get("set_dir").isNull()) {
            Method method = builder.getClass().getMethod("setDirectory", int.class, Uuid.class);
            method.invoke(builder, input.get("set_dir_broker").asInt(), Uuid.fromString(input.get("set_dir").asText()));
        }
        return builder;
    }

    /** generateLeaderAndIsrUpdates: a broker that leaves may not lead, a broker that is being unfenced may. */
    static Set<Integer> mayLead(ObjectNode input) {
        Set<Integer> found = new HashSet<>();
        for (JsonNode each : input.get("acceptable")) found.add(each.asInt());
        int subject = input.get("subject").asInt();
        switch (input.get("op").asText()) {
            case "unfence" -> found.add(subject);
            case "fence", "unclean_shutdown" -> found.remove(subject);
            default -> { }
        }
        return found;
    }

    static PartitionRegistration partition(JsonNode given) {
        return new PartitionRegistration.Builder()
            .setReplicas(ids(given.get("replicas")))
            .setDirectories(uuids(given.get("directories")))
            .setIsr(ids(given.get("isr")))
            .setRemovingReplicas(ids(given.get("removing")))
            .setAddingReplicas(ids(given.get("adding")))
            .setElr(ids(given.get("elr")))
            .setLastKnownElr(ids(given.get("last_known_elr")))
            .setLeader(given.get("leader").asInt())
            .setLeaderRecoveryState(LeaderRecoveryState.of((byte) given.get("leader_recovery_state").asInt()))
            .setLeaderEpoch(given.get("leader_epoch").asInt())
            .setPartitionEpoch(given.get("partition_epoch").asInt())
            .build();
    }

    static ObjectNode outOf(PartitionChangeRecord record) {
        ObjectNode out = JSON.createObjectNode();
        out.set("isr", numbers(record.isr()));
        out.put("leader", record.leader());
        out.set("replicas", numbers(record.replicas()));
        out.set("removing", numbers(record.removingReplicas()));
        out.set("adding", numbers(record.addingReplicas()));
        out.put("leader_recovery_state", record.leaderRecoveryState());
        out.set("directories", record.directories() == null ? null : texts(record.directories().toArray(new Uuid[0])));
        out.set("elr", numbers(record.eligibleLeaderReplicas()));
        out.set("last_known_elr", numbers(record.lastKnownElr()));
        return out;
    }

    static ObjectNode merged(PartitionRegistration partition) {
        ObjectNode out = JSON.createObjectNode();
        out.set("replicas", JSON.valueToTree(partition.replicas));
        out.set("directories", texts(partition.directories));
        out.set("isr", JSON.valueToTree(partition.isr));
        out.set("removing", JSON.valueToTree(partition.removingReplicas));
        out.set("adding", JSON.valueToTree(partition.addingReplicas));
        out.set("elr", JSON.valueToTree(partition.elr));
        out.set("last_known_elr", JSON.valueToTree(partition.lastKnownElr));
        out.put("leader", partition.leader);
        out.put("leader_recovery_state", partition.leaderRecoveryState.value());
        out.put("leader_epoch", partition.leaderEpoch);
        return out.put("partition_epoch", partition.partitionEpoch);
    }

    static JsonNode numbers(List<Integer> ids) {
        return JSON.valueToTree(ids);
    }

    static JsonNode texts(Uuid[] ids) {
        ArrayNode out = JSON.createArrayNode();
        for (Uuid id : ids) out.add(id.toString());
        return out;
    }

    static int[] ids(JsonNode given) {
        return JSON.convertValue(given, int[].class);
    }

    static Uuid[] uuids(JsonNode given) {
        Uuid[] found = new Uuid[given.size()];
        for (int k = 0; k < found.length; k++) found[k] = Uuid.fromString(given.get(k).asText());
        return found;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static void setElection(Object builder, String election) throws Exception {
        Class<? extends Enum> type = (Class<? extends Enum>) Class.forName(builder.getClass().getName() + "$Election");
        set(builder, "setElection", Enum.valueOf(type, election));
    }

    static void setList(Object builder, String name, JsonNode ids) throws Exception {
        if (ids.isNull()) return;
        List<Integer> given = new ArrayList<>();
        for (JsonNode each : ids) given.add(each.asInt());
        set(builder, name, given);
    }

    /** Calls a setter, where the release has it. */
    static void set(Object builder, String name, Object value) throws Exception {
        for (Method method : builder.getClass().getMethods()) {
            if (method.getName().equals(name)) method.invoke(builder, value);
        }
    }

    static Object called(Object of, String name) throws Exception {
        try {
            return of.getClass().getMethod(name).invoke(of);
        } catch (InvocationTargetException failed) {
            throw (Exception) failed.getCause();
        }
    }
}
