import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Supplier;
import org.apache.kafka.common.message.LeaderAndIsrRequestData;
import org.apache.kafka.common.message.UpdateMetadataRequestData;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** kafka-clients' generated classes, driven as Kafka drives them: a size pass with its cache, then the write. */
final class Codec implements Peer.Case {
    private static final long FURTHER_BROKER_EPOCH = 381;

    private final String operation;
    private final Supplier<Message> empty;
    private final short version;
    private final byte[] data;
    private final int partitions;
    private final Message decoded;
    private final ByteBuffer reused;

    private Codec(String operation, Supplier<Message> empty, short version, byte[] data) {
        this.operation = operation;
        this.empty = empty;
        this.version = version;
        this.data = data;
        this.reused = ByteBuffer.allocate(data.length);
        boolean memory = operation.equals("memory");
        this.decoded = memory ? null : decode();
        this.partitions = memory ? 0 : partitions(decoded);
    }

    static void cases(Path directory, Map<String, Peer.Maker> makers) {
        BiConsumer<String, Supplier<Message>> add = (name, empty) -> {
            for (String operation : new String[] {"decode", "encode", "encode_fresh", "fanout", "memory"}) {
                for (String shape : new String[] {"uniform", "mixed", "large"}) {
                    short version = Short.parseShort(name.split(":")[1]);
                    Path file = directory.resolve(name.replace(':', '.') + "." + shape + ".bin");
                    makers.put(operation + ":" + name + ":" + shape,
                        () -> new Codec(operation, empty, version, Files.readAllBytes(file)));
                }
            }
        };
        for (int version : new int[] {7, 2}) add.accept("LeaderAndIsrRequest:" + version, LeaderAndIsrRequestData::new);
        for (int version : new int[] {8, 5}) add.accept("UpdateMetadataRequest:" + version, UpdateMetadataRequestData::new);
    }

    @Override
    public byte[] check() {
        if (operation.equals("decode")) return bytes(encode(decode(), null));
        run(0);
        return bytes((ByteBuffer) Peer.sink);
    }

    @Override
    public int run(int round) {
        switch (operation) {
            case "decode" -> Peer.sink = decode();
            case "encode" -> Peer.sink = encode(decoded, reused);
            case "encode_fresh" -> Peer.sink = encode(decoded, null);
            case "fanout" -> {
                setBrokerEpoch(decoded);
                Peer.sink = encode(decoded, reused);
            }
            default -> throw new IllegalStateException(operation);
        }
        return partitions;
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
