import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/** Answers the harness line by line, as bench/rivals/README.md has it: check, time, memory. */
public final class Peer {
    /** One measured case. */
    interface Case {
        /** The result as bytes, to be compared with the other peers' before any time is believed. */
        byte[] check() throws Exception;

        /** Brings back what the last run used up; not timed. */
        default void prepare(int round) throws Exception { }

        /** The work to be timed; returns how many partitions (or messages) it handled. */
        int run(int round) throws Exception;

        /** What the memory figure keeps alive. */
        default Object keep() throws Exception {
            throw new UnsupportedOperationException("no memory figure for this case");
        }
    }

    /** Makes a case when it is first asked for. */
    interface Maker {
        Case make() throws Exception;
    }

    private static final int MIN_ROUNDS = 3;
    static volatile Object sink;  // Keeps the JIT from dropping results that nobody reads.

    public static void main(String[] args) throws Exception {
        Path directory = Path.of(args[1]);
        Map<String, Maker> makers = new TreeMap<>();
        switch (args[0]) {
            case "codec", "memory" -> Codec.cases(directory, makers);
            case "messages" -> Codec.messages(directory, makers);
            case "records" -> Segment.cases(directory, makers);
            case "election" -> Elections.cases(directory, makers);
            case "divergence" -> Divergence.cases(directory, makers);
            default -> throw new IllegalArgumentException(args[0]);
        }
        Map<String, Case> made = new TreeMap<>();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            System.out.println(answer(line.split(" "), makers, made));
            System.out.flush();
        }
    }

    private static String answer(String[] words, Map<String, Maker> makers, Map<String, Case> made) {
        try {
            if (!makers.containsKey(words[1])) return "{\"skip\": \"not supported\"}";
            Case subject = made.get(words[1]);
            if (subject == null) made.put(words[1], subject = makers.get(words[1]).make());
            switch (words[0]) {
                case "check": {
                    Files.write(Path.of(words[2]), subject.check());
                    return "{}";
                }
                case "time":
                    return time(subject, Double.parseDouble(words[2]));
                default:
                    return memory(subject);
            }
        } catch (Exception | LinkageError error) {
            return "{\"error\": \"" + error.toString().replaceAll("[\"\\\\\\p{Cntrl}]", " ") + "\"}";
        }
    }

    private static String time(Case subject, double seconds) throws Exception {
        List<String> ns = new ArrayList<>();
        double left = seconds * 1e9;  // Timed work only: what `prepare` takes does not count.
        for (int round = 0; round < MIN_ROUNDS || left > 0; round++) {
            subject.prepare(round);
            long start = System.nanoTime();
            int partitions = subject.run(round);
            long took = System.nanoTime() - start;
            left -= took;
            ns.add(String.format(Locale.ROOT, "%.3f", took / (double) partitions));
        }
        return "{\"ns\": [" + String.join(", ", ns) + "]}";
    }

    private static String memory(Case subject) throws Exception {
        long before = liveBytes();
        Object kept = subject.keep();
        long bytes = liveBytes() - before;
        sink = kept;
        sink = null;
        return String.format(Locale.ROOT, "{\"mib\": %.1f}", bytes / (double) (1 << 20));
    }

    /** What the last of several collections left; the heap's plain figure would count unused thread-local buffers. */
    private static long liveBytes() {
        for (int i = 0; i < 4; i++) System.gc();
        long bytes = 0;
        for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
            if (pool.getType() == MemoryType.HEAP) bytes += pool.getCollectionUsage().getUsed();
        }
        return bytes;
    }

    /** The file's little-endian integers. */
    static ByteBuffer little(Path file) throws Exception {
        return ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
    }

    private Peer() { }
}
