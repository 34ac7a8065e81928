import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * Prints what Kafka's ProducerStateManager knows behind each batch of the logs on stdin, as it replays a log
 * (UnifiedLog.loadProducersFromRecords): a line of batches in hexadecimal in, a line of JSON out.
 *
 * A state has, by producer id: epoch, coordinator epoch, last timestamp, first offset of the open transaction or -1, and
 * of each batch last sequence, last offset, offset delta and timestamp; under "" the first undecided offset or -1.
 */
public class ProducerStateFacts {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            File folder = Files.createTempDirectory("producers").toFile();
            ProducerStateManager manager = new ProducerStateManager(
                new TopicPartition("t", 0), folder, 900_000, new ProducerStateManagerConfig(86_400_000, true), Time.SYSTEM);
            List<String> states = new ArrayList<>();
            for (String batch : line.split(" ")) {
                take(manager, MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(batch))));
                states.add(state(manager));
            }
            folder.delete();
            System.out.println(states);
        }
    }

    private static void take(ProducerStateManager manager, MemoryRecords records) {
        Map<Long, ProducerAppendInfo> loaded = new HashMap<>();
        List<CompletedTxn> completed = new ArrayList<>();
        for (RecordBatch batch : records.batches()) {
            if (batch.hasProducerId()) {
                UnifiedLog.updateProducers(manager, batch, loaded, Optional.empty(), AppendOrigin.REPLICATION, (short) 0)
                    .ifPresent(completed::add);
            }
        }
        loaded.values().forEach(manager::update);
        completed.forEach(manager::completeTxn);
    }

    private static String state(ProducerStateManager manager) {
        List<String> fields = new ArrayList<>();
        long undecided = manager.firstUndecidedOffset().orElse(-1);
        fields.add("\"\":" + undecided);
        for (Map.Entry<Long, ProducerStateEntry> each : new TreeMap<>(manager.activeProducers()).entrySet()) {
            ProducerStateEntry entry = each.getValue();
            List<String> batches = new ArrayList<>();
            for (BatchMetadata batch : entry.batchMetadata()) {
                batches.add("[" + batch.lastSeq() + "," + batch.lastOffset() + "," + batch.offsetDelta() + ","
                    + batch.timestamp() + "]");
            }
            fields.add("\"" + each.getKey() + "\":[" + entry.producerEpoch() + "," + entry.coordinatorEpoch() + ","
                + entry.lastTimestamp() + "," + entry.currentTxnFirstOffset().orElse(-1) + "," + batches + "]");
        }
        return "{" + String.join(",", fields) + "}";
    }
}
