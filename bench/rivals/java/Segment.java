import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.Map;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.Records;

/** Kafka's own reading of a segment, batch by batch, each checked against its CRC. */
final class Segment implements Peer.Case {
    private static final int KIB = 1024;

    private final Records records;
    private final int kibibytes;

    private Segment(Records records) {
        this.records = records;
        kibibytes = records.sizeInBytes() / KIB;
    }

    /** `batches`: as a broker reads its segments. `mapped`: the classes for bytes in memory, over the mapped file. */
    static void cases(Path directory, Map<String, Peer.Maker> makers) {
        Path file = directory.resolve("segment.log");
        makers.put("batches:segment", () -> new Segment(FileRecords.open(file.toFile(), false)));
        makers.put("mapped:segment", () -> new Segment(mapped(file)));
    }

    private static MemoryRecords mapped(Path file) throws Exception {
        try (FileChannel channel = FileChannel.open(file)) {
            return MemoryRecords.readableRecords(channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size()));
        }
    }

    /** The base offset of every batch. */
    @Override
    public byte[] check() {
        int batches = 0;
        for (RecordBatch ignored : records.batches()) batches++;
        ByteBuffer offsets = ByteBuffer.allocate(batches * Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            offsets.putLong(batch.baseOffset());
        }
        return offsets.array();
    }

    @Override
    public int run(int round) {
        for (RecordBatch batch : records.batches()) batch.ensureValid();
        return kibibytes;
    }
}
