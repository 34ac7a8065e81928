import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.kafka.common.message.AlterPartitionRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.CreateTopicsRequestData;
import org.apache.kafka.common.message.DescribeQuorumResponseData;
import org.apache.kafka.common.message.EnvelopeRequestData;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.LeaderAndIsrRequestData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.StopReplicaRequestData;
import org.apache.kafka.common.message.UpdateMetadataRequestData;
import org.apache.kafka.common.message.VoteRequestData;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** kafka-clients' generated classes, driven as Kafka drives them: a size pass with its cache, then the write. */
final class Codec implements Peer.Case {
    private static final long FURTHER_BROKER_EPOCH = 381;
    private static final int SMALL_REPEATS = 200;
    /** The group `messages`. */
    private static final Map<String, Supplier<Message>> MESSAGES = Map.ofEntries(
        Map.entry("VoteRequest", VoteRequestData::new),
        Map.entry("BrokerHeartbeatRequest", BrokerHeartbeatRequestData::new),
        Map.entry("BrokerRegistrationRequest", BrokerRegistrationRequestData::new),
        Map.entry("FetchRequest", FetchRequestData::new),
        Map.entry("FetchResponse", FetchResponseData::new),
        Map.entry("AlterPartitionRequest", AlterPartitionRequestData::new),
        Map.entry("EnvelopeRequest", EnvelopeRequestData::new),
        Map.entry("AssignReplicasToDirsRequest", AssignReplicasToDirsRequestData::new),
        Map.entry("DescribeQuorumResponse", DescribeQuorumResponseData::new),
        Map.entry("MetadataResponse", MetadataResponseData::new),
        Map.entry("CreateTopicsRequest", CreateTopicsRequestData::new),
        Map.entry("StopReplicaRequest", StopReplicaRequestData::new));

    private final String operation;
    private final Supplier<Message> empty;
    private final short version;
    private final byte[] data;
    private final int partitions;
    private final int repeats;  // Runs of a round: a small message is too short for the clock.
    private final Message decoded;
    private final ByteBuffer reused;
    private final Runnable once;
    private Object made;  // Not `Peer.sink` at once: a volatile write costs as much as a field of a small message.

    private Codec(String operation, Supplier<Message> empty, short version, String shape, byte[] data) {
        this.operation = operation;
        this.empty = empty;
        this.version = version;
        this.data = data;
        this.reused = ByteBuffer.allocate(data.length);
        this.once = once();
        boolean memory = operation.equals("memory");
        this.decoded = memory ? null : decode();
        this.repeats = shape.equals("small") ? SMALL_REPEATS : 1;
        this.partitions = memory ? 0 : shape.equals("small") || shape.equals("big") ? repeats : partitions(decoded);
    }

    static void cases(Path directory, Map<String, Peer.Maker> makers) {
        for (int version : new int[] {7, 2}) add(directory, makers, "LeaderAndIsrRequest", version, LeaderAndIsrRequestData::new);
        for (int version : new int[] {8, 5}) add(directory, makers, "UpdateMetadataRequest", version, UpdateMetadataRequestData::new);
    }

    /** The newest version that these jars have of each. */
    static void messages(Path directory, Map<String, Peer.Maker> makers) {
        MESSAGES.forEach((name, empty) -> add(directory, makers, name, empty.get().highestSupportedVersion(), empty));
    }

    private static void add(
        Path directory, Map<String, Peer.Maker> makers, String name, int version, Supplier<Message> empty
    ) {
        for (String operation : new String[] {"decode", "encode", "encode_fresh", "fanout", "memory"}) {
            for (String shape : new String[] {"uniform", "mixed", "large", "small", "big"}) {
                Path file = directory.resolve(name + "." + version + "." + shape + ".bin");
                makers.put(operation + ":" + name + ":" + version + ":" + shape,
                    () -> new Codec(operation, empty, (short) version, shape, Files.readAllBytes(file)));
            }
        }
    }

    @Override
    public byte[] check() {
        if (operation.equals("decode")) return bytes(encode(decode(), null));
        once.run();
        return bytes((ByteBuffer) made);
    }

    @Override
    public int run(int round) {
        for (int i = 0; i < repeats; i++) once.run();
        Peer.sink = made;
        return partitions;
    }

    private Runnable once() {
        return switch (operation) {
            case "decode" -> () -> made = decode();
            case "encode" -> () -> made = encode(decoded, reused);
            case "encode_fresh" -> () -> made = encode(decoded, null);
            case "fanout" -> () -> {
                setBrokerEpoch(decoded);
                made = encode(decoded, reused);
            };
            default -> () -> {
                throw new IllegalStateException(operation);
            };
        };
    }

    @Override
    public Object keep() {
        return decode();
    }

    private Message decode() {
        Message message = empty.get();
        message.read(new ByteBufferAccessor(ByteBuffer.wrap(data)), version);
        return message;
    }

    private ByteBuffer encode(Message message, ByteBuffer into) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = message.size(cache, version);
        ByteBuffer out = into == null ? ByteBuffer.allocate(size) : into.clear();
        message.write(new ByteBufferAccessor(out), cache, version);
        return out.flip();
    }

    private static byte[] bytes(ByteBuffer buffer) {
        return Arrays.copyOf(buffer.array(), buffer.limit());
    }

    private static void setBrokerEpoch(Message message) {
        if (message instanceof LeaderAndIsrRequestData) ((LeaderAndIsrRequestData) message).setBrokerEpoch(FURTHER_BROKER_EPOCH);
        else ((UpdateMetadataRequestData) message).setBrokerEpoch(FURTHER_BROKER_EPOCH);
    }

    private static int partitions(Message message) {
        if (message instanceof LeaderAndIsrRequestData)
            return ((LeaderAndIsrRequestData) message).topicStates().stream().mapToInt(t -> t.partitionStates().size()).sum();
        return ((UpdateMetadataRequestData) message).topicStates().stream().mapToInt(t -> t.partitionStates().size()).sum();
    }
}
