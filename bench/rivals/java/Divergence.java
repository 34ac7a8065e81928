import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.concurrent.ScheduledFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

/**
 * Kafka's LeaderEpochFileCache on both sides of the KIP-101/279 exchange.
 * The rounds follow the rule of Kafka's AbstractFetcherThread, without its locks, maps, logging, files and network.
 */
final class Divergence {
    private static final int EPOCHS = 20;
    private static final int COLUMNS = 2 * (2 * EPOCHS + 1) + 2;
    private static final int UNDEFINED = -1;

    private final long[][] rows;
    private final LeaderEpochFileCache[] leaders;
    private final LeaderEpochFileCache[] followers;
    private final Memory checkpoint;
    private final LeaderEpochFileCache empty;

    private Divergence(Path directory) throws Exception {
        LongBuffer longs = Peer.little(directory.resolve("epochs.i64")).asLongBuffer();
        rows = new long[longs.remaining() / COLUMNS][COLUMNS];
        for (long[] row : rows) longs.get(row);
        File folder = Files.createTempDirectory("epochs").toFile();
        folder.deleteOnExit();
        checkpoint = new Memory(new File(folder, "leader-epoch-checkpoint"));
        empty = new LeaderEpochFileCache(new TopicPartition("topic", 0), checkpoint, new NoFlush());
        leaders = new LeaderEpochFileCache[rows.length];
        followers = new LeaderEpochFileCache[rows.length];
        for (int p = 0; p < rows.length; p++) leaders[p] = cache(rows[p], 0);
    }

    static void cases(Path directory, Map<String, Peer.Maker> makers) {
        makers.put("end_offsets", () -> new Divergence(directory).new EndOffsets());
        makers.put("truncation", () -> new Divergence(directory).new Truncation());
    }

    private LeaderEpochFileCache cache(long[] row, int from) {
        EpochEntry[] entries = new EpochEntry[EPOCHS];
        Arrays.setAll(entries, i -> new EpochEntry((int) row[from + i], row[from + EPOCHS + i]));
        LeaderEpochFileCache cache = empty.withCheckpoint(checkpoint);
        cache.assign(List.of(entries));
        return cache;
    }

    private static byte[] bytes(long[] values) {
        ByteBuffer out = ByteBuffer.allocate(values.length * 8).order(ByteOrder.LITTLE_ENDIAN);
        out.asLongBuffer().put(values);
        return out.array();
    }

    /** LeaderEpochFileCache.endOffsetFor, once a partition. */
    private final class EndOffsets implements Peer.Case {
        private final long[] results = new long[2 * rows.length];

        @Override
        public byte[] check() {
            run(0);
            return bytes(results);
        }

        @Override
        public int run(int round) {
            for (int p = 0; p < rows.length; p++) {
                Map.Entry<Integer, Long> end = leaders[p].endOffsetFor((int) rows[p][COLUMNS - 1], rows[p][2 * EPOCHS]);
                results[2 * p] = end.getKey();
                results[2 * p + 1] = end.getValue();
            }
            return rows.length;
        }
    }

    /** The whole exchange, until the follower may fetch. */
    private final class Truncation implements Peer.Case {
        private final long[] results = new long[2 * rows.length];

        @Override
        public void prepare(int round) {
            for (int p = 0; p < rows.length; p++) followers[p] = cache(rows[p], 2 * EPOCHS + 1);
        }

        @Override
        public byte[] check() {
            prepare(0);
            run(0);
            return bytes(results);
        }

        @Override
        public int run(int round) {
            for (int p = 0; p < rows.length; p++) exchange(p);
            return rows.length;
        }

        private void exchange(int p) {
            long[] row = rows[p];
            long leaderEnd = row[2 * EPOCHS];
            long followerEnd = row[COLUMNS - 3];
            long fetchOffset = row[COLUMNS - 2];
            LeaderEpochFileCache follower = followers[p];
            int rounds = 0;
            for (boolean done = false; !done; rounds++) {
                OptionalInt latest = follower.latestEpoch();
                if (latest.isEmpty()) {
                    done = true;  // No epoch left to ask for: the fetch offset it is.
                } else {
                    Map.Entry<Integer, Long> answer = leaders[p].endOffsetFor(latest.getAsInt(), leaderEnd);
                    if (answer.getValue() == UNDEFINED) {
                        done = true;
                    } else {
                        Map.Entry<Integer, Long> mine = follower.endOffsetFor(answer.getKey(), followerEnd);
                        boolean tracked = mine.getValue() != UNDEFINED;
                        done = !tracked || mine.getKey().equals(answer.getKey());
                        long offset = !tracked ? answer.getValue()
                            : done ? Math.min(mine.getValue(), answer.getValue()) : mine.getValue();
                        fetchOffset = Math.min(offset, followerEnd);
                    }
                }
                if (fetchOffset < followerEnd) {
                    followerEnd = fetchOffset;
                    follower.truncateFromEndAsyncFlush(fetchOffset);
                }
            }
            results[2 * p] = fetchOffset;
            results[2 * p + 1] = rounds;
        }
    }

    /** A checkpoint that never touches the disk, so that only the cache is timed. */
    private static final class Memory extends LeaderEpochCheckpointFile {
        Memory(File file) throws Exception {
            super(file, new LogDirFailureChannel(1));
        }

        @Override
        public void write(Collection<EpochEntry> epochs) { }

        @Override
        public void writeIfDirExists(Collection<EpochEntry> epochs) { }

        @Override
        public List<EpochEntry> read() {
            return List.of();
        }
    }

    /** Drops the asynchronous flush. */
    private static final class NoFlush implements Scheduler {
        @Override
        public void startup() { }

        @Override
        public void shutdown() { }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return null;
        }

        @Override
        public void resizeThreadPool(int newSize) { }
    }
}
