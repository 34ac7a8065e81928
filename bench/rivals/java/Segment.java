import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.record.RecordBatch;

/** Kafka's own reading of a segment, batch by batch, each checked against its CRC. */
final class Segment implements Peer.Case {
    private static final int KIB = 1024;

    private final FileRecords records;
    private final int kibibytes;

    private Segment(Path file) throws Exception {
        records = FileRecords.open(file.toFile(), false);
        kibibytes = (int) (Files.size(file) / KIB);
    }

    static void cases(Path directory, Map<String, Peer.Maker> makers) {
        makers.put("batches:segment", () -> new Segment(directory.resolve("segment.log")));
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
