import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;

/**
 * Prints message sets of magic 0 and 1 as Kafka's own classes write and read them, one JSON object a line:
 * tests/data/wire/message-sets-3.9.1.jsonl.gz. It also reads the sets of standard input, a name and hexadecimal bytes
 * a line, which `message_sets.py` prints. Run them by
 * `python message_sets.py | java -cp "$HOME/.cache/kcore/kafka-3.9.1/*" MessageSets.java`.
 */
public class MessageSets {
    static final Random DICE = new Random(40);

    public static void main(String[] args) throws Exception {
        CompressionType[] codecs = {CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY,
            CompressionType.LZ4};
        for (CompressionType codec : codecs) {
            print("kafka 0 " + codec.name, made((byte) 0, codec, TimestampType.CREATE_TIME, 6, 200));
            for (TimestampType type : new TimestampType[] {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME}) {
                print("kafka 1 " + codec.name + " " + type.name, made((byte) 1, codec, type, 6, 200));
            }
            for (byte magic : codec == CompressionType.NONE ? new byte[0] : new byte[] {0, 1})
                print("kafka " + magic + " " + codec.name + " large",
                    made(magic, codec, TimestampType.CREATE_TIME, 20, 9_000));
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            int space = line.lastIndexOf(' ');
            print(line.substring(0, space), ByteBuffer.wrap(HexFormat.of().parseHex(line.substring(space + 1))));
        }
    }

    /** Words from a small alphabet: codecs find matches of several lengths, and literals between them. */
    static byte[] bytes(int most) {
        byte[] made = new byte[DICE.nextInt(most)];
        for (int at = 0; at < made.length; at++) {
            int back = 1 + DICE.nextInt(400);
            made[at] = at >= back && DICE.nextInt(8) > 0 ? made[at - back + DICE.nextInt(2) * (back > 1 ? 1 : 0)]
                : (byte) DICE.nextInt();
            if (DICE.nextInt(20) == 0)
                for (int more = DICE.nextInt(300); more > 0 && at + 1 < made.length; more--, at++)
                    made[at + 1] = at >= back ? made[at + 1 - back] : made[at];
        }
        return made;
    }

    static ByteBuffer made(byte magic, CompressionType codec, TimestampType type, int count, int most) {
        long now = type == TimestampType.LOG_APPEND_TIME ? 1_700_000_000_000L : RecordBatch.NO_TIMESTAMP;
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(ByteBuffer.allocate(1 << 20), magic,
            Compression.of(codec).build(), type, 100L, now, RecordBatch.NO_PRODUCER_ID, RecordBatch.NO_PRODUCER_EPOCH,
            RecordBatch.NO_SEQUENCE, false, false, RecordBatch.NO_PARTITION_LEADER_EPOCH, 1 << 20);
        long offset = 100L;
        for (int at = 0; at < count; at++) {
            long time = magic == 0 ? RecordBatch.NO_TIMESTAMP : 1_500_000_000_000L + DICE.nextInt(100_000) - 50_000;
            byte[] key = at % 3 == 0 ? null : bytes(12);
            byte[] value = at % 4 == 1 ? null : bytes(most);
            builder.appendWithOffset(offset, time, key, value);
            offset += at == 3 ? 5 : 1; // A compacted topic has holes.
        }
        return builder.build().buffer();
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null) return "null";
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return "\"" + HexFormat.of().formatHex(copy) + "\"";
    }

    static void print(String kind, ByteBuffer data) {
        List<String> batches = new ArrayList<>();
        String error = "null";
        try {
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(data.duplicate()).batches())
                batches.add(json(batch));
        } catch (RuntimeException problem) {
            Throwable cause = problem;
            while (cause.getCause() != null) cause = cause.getCause();
            error = "\"" + cause.getClass().getSimpleName() + ": " + cause.getMessage() + "\"";
        }
        System.out.println("{\"kind\": \"" + kind + "\", \"hex\": " + hex(data) + ", \"batches\": ["
            + String.join(", ", batches) + "], \"error\": " + error + "}");
    }

    static String json(MutableRecordBatch batch) {
        List<String> records = new ArrayList<>();
        batch.ensureValid();
        for (Record record : batch)
            records.add("{\"offset\": " + record.offset() + ", \"timestamp\": " + record.timestamp() + ", \"key\": "
                + hex(record.key()) + ", \"value\": " + hex(record.value()) + "}");
        return "{\"baseOffset\": " + batch.baseOffset() + ", \"lastOffset\": " + batch.lastOffset() + ", \"magic\": "
            + batch.magic() + ", \"crc\": " + batch.checksum() + ", \"compression\": \"" + batch.compressionType().name
            + "\", \"timestampType\": \"" + batch.timestampType().name + "\", \"maxTimestamp\": " + batch.maxTimestamp()
            + ", \"sizeInBytes\": " + batch.sizeInBytes() + ", \"records\": [" + String.join(", ", records) + "]}";
    }
}
