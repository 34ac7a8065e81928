import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import kafka.server.*;  // ClientRequestQuotaManager up to 4.3.
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.*;  // It is here from 4.4.0 on.

/**
 * Prints what Kafka's ClientRequestQuotaManager decides: a story a line, as JSON.
 *
 * A step is ["quota", user, client, percentage] ("": the default, null: not part of the entity, or no quota any more),
 * or ["used", at, user, client, percentage, throttled]: the time that a request took, and for how many ms its client is
 * throttled; null: it was not asked. All windows pass where an entity gets a quota or loses it: kcore does not count what
 * was used without one.
 */
public class RequestQuotaFacts {
    private static final String[] USERS = {"a", "b"};
    private static final String[] CLIENTS = {"x", "y"};
    private static final double[] PERCENTAGES = {0.01, 0.5, 1, 3, 10, 100};

    private final Random random;
    private final int windows;
    private final int seconds;
    private final ClientQuotaManager manager;
    private final List<String> steps = new ArrayList<>();
    private final List<String[]> entities = new ArrayList<>();
    private final Set<List<String>> limited = new HashSet<>();
    private long nowMs = 1_000_000;

    private RequestQuotaFacts(Random random) {
        this.random = random;
        windows = random.nextInt(3) > 0 ? 11 : 1 + random.nextInt(4);
        seconds = random.nextInt(3) > 0 ? 1 : 2;
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(windows, seconds);
        manager = new ClientRequestQuotaManager(config, new Metrics(), Time.SYSTEM, "", Optional.empty());
    }

    public static void main(String[] arguments) throws Exception {
        Random random = new Random(Long.parseLong(arguments[0]));
        try {
            for (int number = Integer.parseInt(arguments[1]); number > 0; number--) {
                System.out.println(new RequestQuotaFacts(random).story());
            }
            System.out.flush();
        } catch (Throwable wrong) {
            wrong.printStackTrace();
        } finally {
            Runtime.getRuntime().halt(0);  // Each manager has a thread.
        }
    }

    private String story() throws Exception {
        while (entities.isEmpty()) change(nextOf(null, "", "a"), nextOf(null, "", "x"), true);
        for (int number = 0; number < 200; number++) {
            int dice = random.nextInt(100);
            if (dice < 3) {
                change(nextOf(null, "", "a", "b"), nextOf(null, "", "x", "y"), true);
            } else if (dice < 5) {
                String[] entity = entities.get(random.nextInt(entities.size()));
                change(entity[0], entity[1], random.nextBoolean());
            } else {
                use(USERS[random.nextInt(2)], CLIENTS[random.nextInt(2)]);
            }
        }
        return "{\"windows\": " + windows + ", \"seconds\": " + seconds + ", \"steps\": [" + String.join(", ", steps) + "]}";
    }

    private void change(String user, String client, boolean isSet) {
        if (user == null && client == null) return;
        Optional<ClientQuotaEntity.ConfigEntity> userEntity = Optional.ofNullable(user).map(name ->
            name.isEmpty() ? ClientQuotaManager.DEFAULT_USER_ENTITY : new ClientQuotaManager.UserEntity(name));
        Optional<ClientQuotaEntity.ConfigEntity> clientEntity = Optional.ofNullable(client).map(name ->
            name.isEmpty() ? ClientQuotaManager.DEFAULT_USER_CLIENT_ID : new ClientQuotaManager.ClientIdEntity(name));
        String[] entity = {user, client};
        boolean isNew = entities.stream().noneMatch(each -> Arrays.equals(each, entity));
        if (isNew) entities.add(entity);
        boolean hadNone = !limited.contains(Arrays.asList(entity));
        if (isSet) limited.add(Arrays.asList(entity));
        else limited.remove(Arrays.asList(entity));
        double percentage = PERCENTAGES[random.nextInt(PERCENTAGES.length)];
        manager.updateQuota(userEntity, clientEntity, isSet ? Optional.of(new Quota(percentage, true)) : Optional.empty());
        steps.add("[\"quota\", " + text(user) + ", " + text(client) + ", " + (isSet ? percentage : null) + "]");
        if (hadNone || !isSet || random.nextBoolean()) nowMs += (windows + 2) * seconds * 1000L;
    }

    private void use(String user, String client) throws Exception {
        int dice = random.nextInt(20);
        nowMs += dice == 0 ? random.nextInt(20_000) : dice < 6 ? random.nextInt(1_500) : random.nextInt(100);
        double percentage = random.nextInt(1 << random.nextInt(12)) / 8.0;
        Session session = new Session(new KafkaPrincipal("User", user), InetAddress.getLoopbackAddress());
        String throttled = "null";
        if (random.nextInt(4) == 0) {
            manager.unrecordQuotaSensor(session, client, -percentage, nowMs);
        } else {
            throttled = "" + manager.recordAndGetThrottleTimeMs(session, client, percentage, nowMs);
        }
        steps.add("[\"used\", " + nowMs + ", " + text(user) + ", " + text(client) + ", " + percentage + ", " + throttled + "]");
    }

    private String nextOf(String... names) {
        return names[random.nextInt(names.length)];
    }

    private static String text(String name) {
        return name == null ? "null" : "\"" + name + "\"";
    }
}
