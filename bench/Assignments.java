import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.NodeApiVersions;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.AssignReplicasToDirsRequestData;
import org.apache.kafka.common.message.AssignReplicasToDirsResponseData;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AssignReplicasToDirsResponse;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.server.AssignmentsManager;
import org.apache.kafka.server.common.ControllerRequestCompletionHandler;
import org.apache.kafka.server.common.NodeToControllerChannelManager;
import org.apache.kafka.server.common.TopicIdPartition;

/**
 * Assignments through the queue of Kafka's broker, against a controller that answers at once that all is well.
 *
 * Arguments: assignments, partitions a topic. Prints a line when it is ready; then each line that it reads is a round,
 * whose line of JSON has seconds of the clock and of the processor, those of the peer apart, and what the peer was sent.
 */
public final class Assignments {
    private static final short VERSION = 0;
    private static final long GOLDEN = 0x9E3779B97F4A7C15L;

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[0]), perTopic = Integer.parseInt(arguments[1]);
        TopicIdPartition[] partitions = new TopicIdPartition[count];
        Uuid[] directories = {new Uuid(1, 0), new Uuid(1, 1), new Uuid(1, 2)};
        MetadataImage image = image(partitions, perTopic, directories);
        BufferedReader rounds = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        while (rounds.readLine() != null) System.out.println(round(image, partitions, directories));
    }

    /** One broker, and replicas of its that are in no directory yet. */
    private static MetadataImage image(TopicIdPartition[] partitions, int perTopic, Uuid[] directories) {
        MetadataDelta delta = new MetadataDelta.Builder().build();
        delta.replay(new RegisterBrokerRecord().setBrokerId(0).setBrokerEpoch(1).setFenced(false)
            .setIncarnationId(new Uuid(2, 2)).setLogDirs(List.of(directories)));
        Uuid topic = Uuid.ZERO_UUID;
        for (int at = 0; at < partitions.length; at++) {
            int number = at / perTopic;
            if (at % perTopic == 0) {
                topic = new Uuid(number * GOLDEN, number + 1);
                delta.replay(new TopicRecord().setName("topic-" + number).setTopicId(topic));
            }
            partitions[at] = new TopicIdPartition(topic, at % perTopic);
            delta.replay(new PartitionRecord().setTopicId(topic).setPartitionId(at % perTopic).setLeader(0)
                .setReplicas(List.of(0)).setIsr(List.of(0)).setDirectories(List.of(new Uuid(0, 1))));
        }
        return delta.apply(new MetadataProvenance(partitions.length, 1, 1, true));
    }

    private static String round(MetadataImage image, TopicIdPartition[] partitions, Uuid[] directories)
            throws Exception {
        CountDownLatch accepted = new CountDownLatch(partitions.length);
        Peer peer = new Peer();
        AssignmentsManager queue = new AssignmentsManager(Time.SYSTEM, peer, 0, () -> image, Uuid::toString);
        OperatingSystemMXBean machine = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long cpuNs = machine.getProcessCpuTime(), beginNs = System.nanoTime();
        for (int at = 0; at < partitions.length; at++) {
            queue.onAssignment(partitions[at], directories[at % 3], "a benchmark", accepted::countDown);
        }
        long queuedNs = System.nanoTime() - beginNs;
        accepted.await();
        long tookNs = System.nanoTime() - beginNs;
        cpuNs = machine.getProcessCpuTime() - cpuNs;
        queue.close();
        return String.format("{\"seconds\": %.6f, \"cpu\": %.6f, \"enqueue\": %.6f, \"peer\": %.6f, \"requests\": %d, "
            + "\"assignments\": %d}", tookNs / 1e9, cpuNs / 1e9, queuedNs / 1e9, peer.ns / 1e9, peer.requests, peer.sum);
    }

    /** The controller: takes the request's bytes, and gives those of an answer. */
    private static final class Peer implements NodeToControllerChannelManager {
        private long ns;
        private int requests;
        private int sum;

        @Override
        public void sendRequest(
            AbstractRequest.Builder<? extends AbstractRequest> builder, ControllerRequestCompletionHandler callback
        ) {
            AssignReplicasToDirsRequestData request = (AssignReplicasToDirsRequestData) builder.build(VERSION).data();
            MessageUtil.toByteBufferAccessor(request, VERSION);
            long beginNs = System.nanoTime();
            ByteBuffer answer = MessageUtil.toByteBufferAccessor(allWell(request), VERSION).buffer();
            requests++;
            ns += System.nanoTime() - beginNs;
            AssignReplicasToDirsResponse read = AssignReplicasToDirsResponse.parse(new ByteBufferAccessor(answer), VERSION);
            callback.onComplete(new ClientResponse(null, null, "0", 0, 0, false, null, null, read));
        }

        private AssignReplicasToDirsResponseData allWell(AssignReplicasToDirsRequestData request) {
            AssignReplicasToDirsResponseData answer = new AssignReplicasToDirsResponseData();
            for (AssignReplicasToDirsRequestData.DirectoryData directory : request.directories()) {
                var named = new AssignReplicasToDirsResponseData.DirectoryData().setId(directory.id());
                for (AssignReplicasToDirsRequestData.TopicData topic : directory.topics()) {
                    var of = new AssignReplicasToDirsResponseData.TopicData().setTopicId(topic.topicId());
                    for (AssignReplicasToDirsRequestData.PartitionData each : topic.partitions()) {
                        of.partitions().add(new AssignReplicasToDirsResponseData.PartitionData()
                            .setPartitionIndex(each.partitionIndex()));
                        sum++;
                    }
                    named.topics().add(of);
                }
                answer.directories().add(named);
            }
            return answer;
        }

        @Override
        public void start() { }

        @Override
        public void shutdown() { }

        @Override
        public Optional<NodeApiVersions> controllerApiVersions() {
            return Optional.empty();
        }

        @Override
        public long getTimeoutMs() {
            return 30_000;
        }
    }
}
