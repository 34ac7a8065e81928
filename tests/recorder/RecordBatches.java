import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.LeaderChangeMessageJsonConverter;
import org.apache.kafka.common.message.SnapshotFooterRecordJsonConverter;
import org.apache.kafka.common.message.SnapshotHeaderRecordJsonConverter;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.ControlRecordUtils;
import org.apache.kafka.common.record.DefaultRecordBatch;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;

/**
 * Prints batches that Kafka's own classes made, one JSON object a line: tests/data/wire/records-3.9.1.jsonl.gz.
 * Run it by `java -cp "$HOME/.cache/kcore/kafka-3.9.1/*" RecordBatches.java`.
 */
public class RecordBatches {
    static final Random DICE = new Random(35);
    static int number = 0;

    public static void main(String[] args) {
        for (CompressionType codec : CompressionType.values()) {
            for (TimestampType type : new TimestampType[] {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME}) {
                for (boolean transactional : new boolean[] {false, true}) {
                    print("made", made(codec, type, transactional, 100L));
                    print("compacted", withoutSome(made(codec, type, transactional, 200L), 2));
                    print("emptied", withoutSome(made(codec, type, transactional, 300L), 100));
                }
            }
            print("several", several(codec));
        }
        for (TimestampType type : new TimestampType[] {TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME}) {
            ByteBuffer header = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
            DefaultRecordBatch.writeEmptyHeader(header, (byte) 2, 7L, (short) 1, 40, 500L, 509L, 6, type,
                1_600_000_000_000L, true, false);
            header.flip();
            print("empty", header);
        }
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.ABORT, ControlRecordType.COMMIT}) {
            print("marker", MemoryRecords.withEndTransactionMarker(600L, 1_600_000_000_000L, 6, 7L, (short) 1,
                new EndTransactionMarker(type, 11)).buffer());
        }
        print("leader change", MemoryRecords.withLeaderChangeMessage(700L, 12L, 6, ByteBuffer.allocate(512),
            new LeaderChangeMessage().setLeaderId(1)).buffer());
        print("snapshot header", MemoryRecords.withSnapshotHeaderRecord(0L, 12L, 6, ByteBuffer.allocate(512),
            new SnapshotHeaderRecord().setLastContainedLogTimestamp(1_600_000_000_000L)).buffer());
        print("snapshot footer", MemoryRecords.withSnapshotFooterRecord(9L, 12L, 6, ByteBuffer.allocate(512),
            new SnapshotFooterRecord()).buffer());
    }

    static byte[] bytes(int most) {
        byte[] made = new byte[DICE.nextInt(most)];
        DICE.nextBytes(made);
        return made;
    }

    static ByteBuffer made(CompressionType codec, TimestampType type, boolean transactional, long offset) {
        long now = type == TimestampType.LOG_APPEND_TIME ? 1_700_000_000_000L : RecordBatch.NO_TIMESTAMP;
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(ByteBuffer.allocate(1 << 16), (byte) 2,
            Compression.of(codec).build(), type, offset, now, transactional ? 5L : -1L,
            (short) (transactional ? 2 : -1), transactional ? Integer.MAX_VALUE - 2 : -1, transactional, false, 4, 1 << 16);
        for (int at = 0; at < 6; at++) {
            Header[] headers = new Header[DICE.nextInt(3)];
            for (int each = 0; each < headers.length; each++)
                headers[each] = new RecordHeader("h" + each, each == 0 ? null : bytes(9));
            builder.append(1_500_000_000_000L + DICE.nextInt(100_000) - 50_000, at % 3 == 0 ? null : bytes(12),
                at % 4 == 1 ? null : bytes(200), headers);
        }
        MemoryRecords records = builder.build();
        return records.buffer();
    }

    /** As the log cleaner leaves it, without the first records; an emptied batch stays for its producer. */
    static ByteBuffer withoutSome(ByteBuffer made, int dropped) {
        MemoryRecords records = MemoryRecords.readableRecords(made);
        int[] seen = {0};
        MemoryRecords.RecordFilter filter = new MemoryRecords.RecordFilter(1_800_000_000_000L, 1_000L) {
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(BatchRetention.RETAIN_EMPTY, batch.isTransactional());
            }
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return ++seen[0] > dropped;
            }
        };
        ByteBuffer left = ByteBuffer.allocate(1 << 16);
        records.filterTo(new TopicPartition("t", 0), filter, left, Integer.MAX_VALUE, BufferSupplier.NO_CACHING);
        left.flip();
        return left;
    }

    static ByteBuffer several(CompressionType codec) {
        ByteBuffer all = ByteBuffer.allocate(1 << 18);
        all.put(made(codec, TimestampType.CREATE_TIME, false, 1_000L));
        all.put(withoutSome(made(codec, TimestampType.CREATE_TIME, true, 1_010L), 100));
        all.put(made(CompressionType.NONE, TimestampType.LOG_APPEND_TIME, true, 1_020L));
        all.put(made(codec, TimestampType.LOG_APPEND_TIME, false, 1_030L));
        all.flip();
        return all;
    }

    static String hex(ByteBuffer buffer) {
        if (buffer == null) return "null";
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return "\"" + HexFormat.of().formatHex(copy) + "\"";
    }

    static void print(String kind, ByteBuffer data) {
        List<String> batches = new ArrayList<>();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(data.duplicate()).batches())
            batches.add(json((DefaultRecordBatch) batch));
        System.out.println("{\"i\": " + number++ + ", \"kind\": \"" + kind + "\", \"hex\": " + hex(data)
            + ", \"batches\": [" + String.join(", ", batches) + "]}");
    }

    static String json(DefaultRecordBatch batch) {
        ByteBuffer raw = ByteBuffer.allocate(batch.sizeInBytes());
        batch.writeTo(raw);
        List<String> records = new ArrayList<>();
        for (Record record : batch) records.add(json(batch, record));
        int attributes = raw.getShort(21);
        return "{\"baseOffset\": " + batch.baseOffset() + ", \"batchLength\": " + raw.getInt(8)
            + ", \"partitionLeaderEpoch\": " + batch.partitionLeaderEpoch() + ", \"magic\": " + batch.magic()
            + ", \"crc\": " + batch.checksum() + ", \"attributes\": " + attributes
            + ", \"lastOffsetDelta\": " + raw.getInt(23) + ", \"lastOffset\": " + batch.lastOffset()
            + ", \"baseTimestamp\": " + raw.getLong(27) + ", \"maxTimestamp\": " + batch.maxTimestamp()
            + ", \"producerId\": " + batch.producerId() + ", \"producerEpoch\": " + batch.producerEpoch()
            + ", \"baseSequence\": " + batch.baseSequence() + ", \"lastSequence\": " + batch.lastSequence()
            + ", \"count\": " + batch.countOrNull() + ", \"compression\": \"" + batch.compressionType().name
            + "\", \"timestampType\": \"" + batch.timestampType().name
            + "\", \"isTransactional\": " + batch.isTransactional() + ", \"isControl\": " + batch.isControlBatch()
            + ", \"sizeInBytes\": " + batch.sizeInBytes() + ", \"deleteHorizonMs\": "
            + (batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : "null")
            + ", \"records\": [" + String.join(", ", records) + "]}";
    }

    static String json(RecordBatch batch, Record record) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers())
            headers.add("[\"" + header.key() + "\", "
                + hex(header.value() == null ? null : ByteBuffer.wrap(header.value())) + "]");
        String control = "";
        if (batch.isControlBatch()) {
            ControlRecordType type = ControlRecordType.parse(record.key());
            ByteBuffer value = record.value().duplicate();
            ByteBufferAccessor in = new ByteBufferAccessor(value);
            short zero = 0;
            String message = switch (type) {
                case LEADER_CHANGE -> {
                    LeaderChangeMessage found = ControlRecordUtils.deserializeLeaderChangeMessage(record);
                    yield LeaderChangeMessageJsonConverter.write(found, found.version()).toString();
                }
                case SNAPSHOT_HEADER ->
                    SnapshotHeaderRecordJsonConverter.write(new SnapshotHeaderRecord(in, zero), zero).toString();
                case SNAPSHOT_FOOTER ->
                    SnapshotFooterRecordJsonConverter.write(new SnapshotFooterRecord(in, zero), zero).toString();
                case COMMIT, ABORT ->
                    "{\"coordinatorEpoch\": " + EndTransactionMarker.deserialize(record).coordinatorEpoch() + "}";
                default -> throw new IllegalStateException();
            };
            control = ", \"controlType\": \"" + type + "\", \"control\": " + message;
        }
        return "{\"offset\": " + record.offset() + ", \"timestamp\": " + record.timestamp()
            + ", \"sequence\": " + record.sequence() + ", \"key\": " + hex(record.key())
            + ", \"value\": " + hex(record.value()) + ", \"headers\": [" + String.join(", ", headers) + "]" + control
            + "}";
    }
}
