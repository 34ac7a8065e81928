import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.ByteArrayOutputStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Properties;
import java.util.Random;

import org.apache.kafka.common.utils.Time;

/** One JVM in which real controllers are formatted, started and stopped, one after the other, as stdin says.
 *  A command is a line, its fields separated by tabs; an answer is a line on stdout that begins with "@". */
public class ControllerHarness {
    static PrintStream out;
    static kafka.server.KafkaRaftServer server;
    static Object controller;
    static org.apache.kafka.image.loader.MetadataLoader loader;
    static volatile String exits = "";

    public static void main(String[] args) throws Exception {
        out = System.out;
        System.setOut(System.err);
        catchExits("exit", "setExitProcedure");
        catchExits("halt", "setHaltProcedure");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say("ready");
        String line;
        while ((line = in.readLine()) != null) {
            String[] field = line.split("\t", -1);
            try {
                switch (field[0]) {
                    case "format": say(format(Arrays.copyOfRange(field, 1, field.length))); break;
                    case "start": say(start(field[1], Long.parseLong(field[2]))); break;
                    case "sync": say(sync(Long.parseLong(field[1]), Long.parseLong(field[2]))); break;
                    case "exits": say(exits.replace('\n', ' ')); exits = ""; break;
                    case "advance": say(advance(Long.parseLong(field[1]))); break;
                    case "clock": clock.addedNs = Long.parseLong(field[1]) * 1000000L; say("ok"); break;
                    case "snapshot": say(snapshot()); break;
                    case "resign": say(resign()); break;
                    case "active": say(String.valueOf(controller != null && ((org.apache.kafka.controller.Controller) controller).isActive())); break;
                    case "settle": say(settle()); break;
                    case "stop": say(stop()); break;
                    case "quit": say("bye"); System.exit(0); break;
                    default: say("error\tunknown command");
                }
            } catch (Throwable error) {
                error.printStackTrace();
                say("error\t" + String.valueOf(error).replace('\n', ' ').replace('\t', ' '));
            }
        }
        System.exit(0);
    }

    /** Kafka's Exit, which 4.4.0 moved to another package, says what ended the process, and does not end it. */
    static void catchExits(String name, String setter) throws Exception {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        } catch (ClassNotFoundException moved) {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        }
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object caught = Proxy.newProxyInstance(exit.getClassLoader(), new Class<?>[] {procedure}, (proxy, method, given) -> {
            if (!method.getName().equals("execute")) return method.getName().equals("hashCode") ? (Object) 0 : null;
            exits += name + " " + given[0] + " " + given[1] + ";";
            throw new ExitError(name + " " + given[0]);
        });
        exit.getMethod(setter, procedure).invoke(null, caught);
    }

    static class ExitError extends Error { ExitError(String why) { super(why); } }

    static void say(String text) { out.println("@" + text); out.flush(); }

    static String format(String[] args) {
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(text);
        try {
            int code = kafka.tools.StorageTool.execute(args, stream);
            stream.flush();
            return "ok\t" + code + "\t" + text.toString().replace('\n', '|').replace('\t', ' ');
        } catch (Throwable error) {
            stream.flush();
            return "error\t" + String.valueOf(error).replace('\n', ' ') + " " + text.toString().replace('\n', '|');
        }
    }

    static Object field(Object of, String name) throws Exception {
        return declared(of, name).get(of);
    }

    static Field declared(Object of, String name) throws Exception {
        for (Class<?> at = of.getClass(); at != null; at = at.getSuperclass()) {
            try {
                Field found = at.getDeclaredField(name);
                found.setAccessible(true);
                return found;
            } catch (NoSuchFieldException next) { }
        }
        throw new NoSuchFieldException(name);
    }

    static String start(String path, long seed) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream stream = new FileInputStream(path)) { properties.load(stream); }
        server = new kafka.server.KafkaRaftServer(kafka.server.KafkaConfig.fromProps(properties, false), clock);
        Object shared = field(server, "sharedServer");
        declared(shared, "time").set(shared, Time.SYSTEM);  // Of raft, which is made later: the controller alone has `clock`.
        server.startup();
        Object option = field(server, "controller");
        Object controllerServer = option.getClass().getMethod("get").invoke(option);
        controller = controllerServer.getClass().getMethod("controller").invoke(controllerServer);
        loader = (org.apache.kafka.image.loader.MetadataLoader) shared.getClass().getMethod("loader").invoke(shared);
        Object placer = field(field(controller, "clusterControl"), "replicaPlacer");
        ((Random) field(placer, "random")).setSeed(seed);
        return "ok";
    }

    /** Returns once everything below `end` was published to all that reads the metadata. */
    static String sync(long end, long timeoutMs) throws Exception {
        long limit = System.nanoTime() + timeoutMs * 1000000L;
        while (loader.lastAppliedOffset() < end - 1) {
            if (System.nanoTime() > limit) return "late\t" + loader.lastAppliedOffset();
            Thread.sleep(0, 200000);
        }
        return "ok\t" + loader.lastAppliedOffset();
    }

    /** The machine's clock, and what `advance` has added to it. */
    static class Clock implements Time {
        volatile long addedNs = 0;
        public long milliseconds() { return System.currentTimeMillis() + addedNs / 1000000L; }
        public long nanoseconds() { return System.nanoTime() + addedNs; }
        public long hiResClockMs() { return java.util.concurrent.TimeUnit.NANOSECONDS.toMillis(nanoseconds()); }
        public void sleep(long ms) { Time.SYSTEM.sleep(ms); }
        public void waitObject(Object obj, java.util.function.Supplier<Boolean> condition, long deadlineMs) throws InterruptedException {
            synchronized (obj) {
                while (true) {
                    if (condition.get()) return;
                    long now = milliseconds();
                    if (now >= deadlineMs) throw new org.apache.kafka.common.errors.TimeoutException("Condition not satisfied before deadline");
                    obj.wait(Math.min(deadlineMs - now, 1000));
                }
            }
        }
    }

    static final Clock clock = new Clock();

    /** Time passes at once; the controller's own thread is woken to see it. */
    static String advance(long ms) throws Exception {
        clock.addedNs += ms * 1000000L;
        return settle();
    }

    /** Whatever the controller's event queue has due is done: an event of ours goes through it. */
    static String settle() throws Exception {
        org.apache.kafka.queue.EventQueue queue = (org.apache.kafka.queue.EventQueue) field(controller, "queue");
        Object offsets = field(controller, "offsetControl");
        Method next = method(offsets, "nextWriteOffset"), committed = method(offsets, "lastCommittedOffset");
        org.apache.kafka.raft.KafkaRaftClient<?> raft = (org.apache.kafka.raft.KafkaRaftClient<?>) field(controller, "raftClient");
        int quiet = 0, level = 0;
        for (int i = 0; i < 2000 && quiet < 3; i++) {
            java.util.concurrent.CompletableFuture<Boolean> done = new java.util.concurrent.CompletableFuture<>();
            org.apache.kafka.queue.EventQueue.Event event = () ->
                done.complete(((Long) next.invoke(offsets)) == ((Long) committed.invoke(offsets)) + 1);
            queue.append(event);
            quiet = done.get(10, java.util.concurrent.TimeUnit.SECONDS) ? quiet + 1 : 0;
            // Behind an election the controller does not hear that the control records of its epoch are committed.
            level = raft.highWatermark().orElse(-1) == raft.logEndOffset() ? level + 1 : 0;
            if (level == 30) return "ok";
            if (quiet < 3) Thread.sleep(1);
        }
        return quiet < 3 ? "late" : "ok";
    }

    /** Kafka's own generator of snapshots writes what the loader has published. */
    static String snapshot() throws Exception {
        org.apache.kafka.image.MetadataImage image = (org.apache.kafka.image.MetadataImage) field(loader, "image");
        Object emitter = field(field(field(server, "sharedServer"), "snapshotGenerator"), "emitter");
        ((org.apache.kafka.image.publisher.SnapshotGenerator.Emitter) emitter).maybeEmit(image);
        return "ok\t" + image.provenance().snapshotId().offset() + "\t" + image.provenance().snapshotId().epoch();
    }

    /** The active controller gives up its epoch. */
    static String resign() throws Exception {
        Object raft = field(controller, "raftClient");
        ((org.apache.kafka.raft.RaftClient<?>) raft).resign((Integer) field(controller, "curClaimEpoch"));
        return "ok";
    }

    static Method method(Object of, String name) throws Exception {
        Method found = of.getClass().getDeclaredMethod(name);
        found.setAccessible(true);
        return found;
    }

    static String stop() throws Exception {
        if (server != null) {
            server.shutdown();
            server.awaitShutdown();
        }
        server = null; controller = null; loader = null;
        return "ok";
    }
}
