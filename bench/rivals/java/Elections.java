import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import kafka.api.LeaderAndIsr;
import kafka.cluster.Broker;
import kafka.controller.ControllerContext;
import kafka.controller.Election;
import kafka.controller.ElectionResult;
import kafka.controller.ReplicaAssignment;
import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.Replicas;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;
import scala.Option;
import scala.Tuple2;
import scala.Tuple3;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Kafka's own decisions: ZooKeeper mode's Election, KRaft's PartitionChangeBuilder.
 * Each is handed the affected partitions, found beforehand: that search is not in Kafka's time, but is in kcore's.
 */
final class Elections {
    private static final int COLUMNS = 9;
    private static final int BROKERS = 100;
    private static final int FIRST_BROKER_ID = 1;
    private static final Uuid TOPIC_ID = new Uuid(1, 1);

    private final int[][] rows;
    private final TopicPartition[] topicPartitions;

    private Elections(Path file) throws Exception {
        IntBuffer ints = Peer.little(file).asIntBuffer();
        rows = new int[ints.remaining() / COLUMNS][COLUMNS];
        topicPartitions = new TopicPartition[rows.length];
        for (int p = 0; p < rows.length; p++) {
            ints.get(rows[p]);
            topicPartitions[p] = new TopicPartition(String.format("topic-%05d", p / 100), p % 100);
        }
    }

    static void cases(Path directory, Map<String, Peer.Maker> makers) {
        for (String shape : new String[] {"uniform", "mixed"}) {
            Path file = directory.resolve("cluster." + shape + ".i32");
            makers.put("offline:" + shape, () -> new Elections(file).new Offline());
            makers.put("preferred:" + shape, () -> new Elections(file).new Preferred());
            makers.put("fence:" + shape, () -> new Elections(file).new Fence());
            makers.put("full:" + shape, () -> new Elections(file).new FullTable());
        }
    }

    private int leader(int p) {
        return rows[p][0];
    }

    private int[] replicas(int p) {
        return Arrays.copyOfRange(rows[p], 3, 6);
    }

    private int[] isr(int p) {
        return Arrays.stream(rows[p], 6, COLUMNS).filter(broker -> broker >= 0).toArray();
    }

    private static scala.collection.immutable.List<Object> scalaList(int[] brokers) {
        List<Object> boxed = new ArrayList<>();
        for (int broker : brokers) boxed.add(broker);
        return CollectionConverters.asScala(boxed).toList();
    }

    private LeaderAndIsr state(int p) {
        return LeaderAndIsr.apply(leader(p), rows[p][1], scalaList(isr(p)), LeaderRecoveryState.RECOVERED, rows[p][2]);
    }

    private ControllerContext context() {
        ControllerContext context = new ControllerContext();
        for (int p = 0; p < rows.length; p++) {
            context.updatePartitionFullReplicaAssignment(topicPartitions[p], ReplicaAssignment.apply(scalaList(replicas(p))));
        }
        return context;
    }

    private static void setLive(ControllerContext context, int lost) {
        List<Tuple2<Broker, Object>> live = new ArrayList<>();
        for (int id = FIRST_BROKER_ID; id < FIRST_BROKER_ID + BROKERS; id++) {
            if (id == lost) continue;
            ListenerName listener = ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT);
            live.add(new Tuple2<>(new Broker(id, "localhost", 9092, listener, SecurityProtocol.PLAINTEXT), 1L));
        }
        context.setLiveBrokers(scala.collection.immutable.Map.from(CollectionConverters.asScala(live)));
    }

    private static void put(ByteBuffer out, int row, int leader, int leaderEpoch, int[] isr) {
        out.putInt(row).putInt(leader).putInt(leaderEpoch).putInt(isr.length);
        for (int broker : isr) out.putInt(broker);
    }

    private static void put(ByteBuffer out, int row, LeaderAndIsr state) {
        int[] isr = CollectionConverters.asJava(state.isr()).stream().mapToInt(broker -> (Integer) broker).toArray();
        put(out, row, state.leader(), state.leaderEpoch(), isr);
    }

    private static byte[] bytes(ByteBuffer out) {
        return Arrays.copyOf(out.array(), out.position());
    }

    private ByteBuffer output() {
        return ByteBuffer.allocate(rows.length * 4 * (4 + 3)).order(ByteOrder.LITTLE_ENDIAN);
    }

    private int[] select(IntPredicate predicate) {
        return IntStream.range(0, rows.length).filter(predicate).toArray();
    }

    /**
     * One broker is lost, another one each round: Election.leaderForOffline for what it led, then its replicas leave
     * the ISRs by the rule of ReplicaStateMachine.doRemoveReplicasFromIsr, whose own method cannot run without ZooKeeper.
     */
    private final class Offline implements Peer.Case {
        private final ControllerContext context = context();
        private final int[][] led = new int[BROKERS][];
        private final int[][] followed = new int[BROKERS][];
        private final List<scala.collection.Seq<Tuple3<TopicPartition, Option<LeaderAndIsr>, Object>>> states = new ArrayList<>();
        private final LeaderAndIsr[] table = new LeaderAndIsr[rows.length];

        Offline() {
            Arrays.setAll(table, Elections.this::state);
            for (int b = 0; b < BROKERS; b++) {
                int lost = FIRST_BROKER_ID + b;
                led[b] = select(p -> leader(p) == lost);
                followed[b] = select(p -> leader(p) != lost && Replicas.contains(isr(p), lost));
                List<Tuple3<TopicPartition, Option<LeaderAndIsr>, Object>> list = new ArrayList<>();
                for (int p : led[b]) list.add(new Tuple3<>(topicPartitions[p], Option.apply(table[p]), false));
                states.add(CollectionConverters.asScala(list).toVector());
            }
        }

        @Override
        public void prepare(int round) {
            setLive(context, FIRST_BROKER_ID + round % BROKERS);
        }

        @Override
        public byte[] check() {
            prepare(0);
            LeaderAndIsr[] changes = lose(0);
            Map<Integer, LeaderAndIsr> byRow = new TreeMap<>();
            for (int i = 0; i < led[0].length; i++) byRow.put(led[0][i], changes[i]);
            for (int i = 0; i < followed[0].length; i++) byRow.put(followed[0][i], changes[led[0].length + i]);
            ByteBuffer out = output();
            byRow.forEach((p, state) -> put(out, p, state));
            return bytes(out);
        }

        @Override
        public int run(int round) {
            int b = round % BROKERS;
            Peer.sink = lose(b);
            return led[b].length + followed[b].length;
        }

        /** The new states of what the broker led, then of what it followed. */
        private LeaderAndIsr[] lose(int b) {
            LeaderAndIsr[] after = new LeaderAndIsr[led[b].length + followed[b].length];
            int i = 0;
            scala.collection.Iterator<ElectionResult> results =
                Election.leaderForOffline(context, true, states.get(b)).iterator();
            for (int p : led[b]) {
                Option<LeaderAndIsr> elected = results.next().leaderAndIsr();
                after[i++] = elected.isDefined() ? elected.get() : removeFromIsr(FIRST_BROKER_ID + b, table[p]);
            }
            for (int p : followed[b]) after[i++] = removeFromIsr(FIRST_BROKER_ID + b, table[p]);
            return after;
        }

        private LeaderAndIsr removeFromIsr(int broker, LeaderAndIsr state) {
            int leader = state.leader() == broker ? LeaderAndIsr.NoLeader() : state.leader();
            scala.collection.immutable.List<Object> isr = state.isr();
            return state.newLeaderAndIsr(leader, isr.size() == 1 ? isr : isr.filter(member -> (Integer) member != broker));
        }
    }

    /** Election.leaderForPreferredReplica for every partition that its preferred replica does not lead. */
    private final class Preferred implements Peer.Case {
        private final ControllerContext context = context();
        private final int[] affected = select(p -> leader(p) != replicas(p)[0]);
        private final scala.collection.Seq<Tuple2<TopicPartition, LeaderAndIsr>> states;

        Preferred() {
            setLive(context, -1);
            List<Tuple2<TopicPartition, LeaderAndIsr>> list = new ArrayList<>();
            for (int p : affected) list.add(new Tuple2<>(topicPartitions[p], state(p)));
            states = CollectionConverters.asScala(list).toVector();
        }

        @Override
        @SuppressWarnings("unchecked")
        public byte[] check() {
            run(0);
            ByteBuffer out = output();
            for (int i = 0; i < affected.length; i++) {
                Option<LeaderAndIsr> elected = ((scala.collection.Seq<ElectionResult>) Peer.sink).apply(i).leaderAndIsr();
                if (elected.isDefined()) put(out, affected[i], elected.get());
            }
            return bytes(out);
        }

        @Override
        public int run(int round) {
            Peer.sink = Election.leaderForPreferredReplica(context, states);
            return Math.max(1, affected.length);
        }
    }

    private PartitionRegistration registration(int p) {
        return new PartitionRegistration.Builder().setReplicas(replicas(p)).setIsr(isr(p)).setLeader(leader(p))
            .setDirectories(DirectoryId.unassignedArray(3)).setLeaderRecoveryState(LeaderRecoveryState.RECOVERED)
            .setLeaderEpoch(rows[p][1]).setPartitionEpoch(rows[p][2]).build();
    }

    private static PartitionChangeBuilder builder(PartitionRegistration partition, int p, int lost) {
        return new PartitionChangeBuilder(partition, TOPIC_ID, p, broker -> broker != lost, MetadataVersion.IBP_3_9_IV0, 1)
            .setDefaultDirProvider(broker -> DirectoryId.UNASSIGNED);
    }

    private byte[] records(int[] affected, List<Optional<ApiMessageAndVersion>> records) {
        ByteBuffer out = output();
        for (int i = 0; i < affected.length; i++) {
            if (records.get(i).isEmpty()) continue;
            PartitionChangeRecord record = (PartitionChangeRecord) records.get(i).get().message();
            int p = affected[i];
            boolean changed = record.leader() != -2;
            int[] isr = record.isr() == null ? isr(p) : Replicas.toArray(record.isr());
            put(out, p, changed ? record.leader() : leader(p), rows[p][1] + (changed ? 1 : 0), isr);
        }
        return bytes(out);
    }

    /** One broker is fenced, another one each round: a PartitionChangeBuilder for each ISR that has it. */
    private final class Fence implements Peer.Case {
        private final PartitionRegistration[] table = new PartitionRegistration[rows.length];
        private final int[][] affected = new int[BROKERS][];

        Fence() {
            Arrays.setAll(table, Elections.this::registration);
            Arrays.setAll(affected, b -> select(p -> Replicas.contains(isr(p), FIRST_BROKER_ID + b)));
        }

        @Override
        @SuppressWarnings("unchecked")
        public byte[] check() {
            run(0);
            return records(affected[0], (List<Optional<ApiMessageAndVersion>>) Peer.sink);
        }

        @Override
        public int run(int round) {
            int[] mine = affected[round % BROKERS];
            List<Optional<ApiMessageAndVersion>> records = new ArrayList<>(mine.length);
            int lost = FIRST_BROKER_ID + round % BROKERS;
            for (int p : mine) {
                List<Integer> isr = Replicas.toList(Replicas.copyWithout(table[p].isr, lost));
                records.add(builder(table[p], p, lost).setTargetIsr(isr).build());
            }
            Peer.sink = records;
            return mine.length;
        }
    }

    /** A PartitionChangeBuilder for every partition, while one broker may not lead and stays in its ISRs. */
    private final class FullTable implements Peer.Case {
        private final PartitionRegistration[] table = new PartitionRegistration[rows.length];
        private final int[] all = select(p -> true);

        FullTable() {
            Arrays.setAll(table, Elections.this::registration);
        }

        @Override
        @SuppressWarnings("unchecked")
        public byte[] check() {
            run(0);
            return records(all, (List<Optional<ApiMessageAndVersion>>) Peer.sink);
        }

        @Override
        public int run(int round) {
            List<Optional<ApiMessageAndVersion>> records = new ArrayList<>(table.length);
            for (int p = 0; p < table.length; p++) records.add(builder(table[p], p, FIRST_BROKER_ID).build());
            Peer.sink = records;
            return table.length;
        }
    }
}
