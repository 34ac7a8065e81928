import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.raft.MetadataLogConfig;
import org.apache.kafka.raft.internals.KafkaRaftLog;
import org.apache.kafka.server.util.KafkaScheduler;

/**
 * Opens each metadata directory named on stdin as Kafka's controllers do (KafkaRaftLog.createLog), and prints where the
 * log starts and ends then, or the error's class.
 */
public class KafkaOpens {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        MetadataLogConfig config = new MetadataLogConfig(new AbstractConfig(MetadataLogConfig.CONFIG_DEF, settings));
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            try (KafkaRaftLog log = KafkaRaftLog.createLog(new TopicPartition("__cluster_metadata", 0),
                    Uuid.METADATA_TOPIC_ID, new File(line), Time.SYSTEM, scheduler, config, 1)) {
                System.out.println("opened " + log.startOffset() + " " + log.endOffset().offset());
            } catch (Throwable error) {
                System.out.println("refused " + error.getClass().getSimpleName());
            }
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
