import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.server.common.MetadataVersion;

/** Prints, as JSON, the errors, APIs, metadata versions and features of the jars on the class path. */
public class ReleaseFacts {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("errors", errors());
        facts.put("apis", apis());
        facts.put("levels", levels());
        facts.put("defaults", Map.of(
            "minimum", constant("MINIMUM_VERSION", "MINIMUM_KRAFT_VERSION").version(),
            "latest_production", constant("LATEST_PRODUCTION").version()));
        facts.put("features", features());
        System.out.println(new ObjectMapper().writeValueAsString(facts));
    }

    static Map<String, Object> errors() {
        Map<String, Object> found = new TreeMap<>();
        for (Errors error : Errors.values()) {
            Map<String, Object> facts = new LinkedHashMap<>();
            facts.put("name", error.name());
            facts.put("exception", error.exceptionName());
            facts.put("message", error.message());
            found.put(Short.toString(error.code()), facts);
        }
        return found;
    }

    static Map<String, Object> apis() {
        Map<String, Object> found = new TreeMap<>();
        for (ApiKeys api : ApiKeys.values()) {
            Map<String, Object> facts = new LinkedHashMap<>();
            facts.put("key", api.id);
            facts.put("versions", range(api, false));
            facts.put("unstable", range(api, true));
            facts.put("forwardable", api.forwardable);
            facts.put("cluster_action", api.clusterAction);
            List<String> listeners = new ArrayList<>();
            for (ApiMessageType.ListenerType listener : ApiMessageType.ListenerType.values()) {
                if (api.inScope(listener)) listeners.add(listener.name().toLowerCase(java.util.Locale.ROOT));
            }
            facts.put("listeners", listeners);
            found.put(api.name, facts);
        }
        return found;
    }

    /** The versions that the release announces; none where it has removed the API. */
    static List<Integer> range(ApiKeys api, boolean unstable) {
        return api.toApiVersion(unstable).map(each -> List.of((int) each.minVersion(), (int) each.maxVersion())).orElse(List.of());
    }

    /** By name, the highest level last. */
    static Map<String, Object> levels() throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        for (MetadataVersion version : MetadataVersion.VERSIONS) {
            if (version.featureLevel() > 0) found.put(version.version(), factsOf(version));
        }
        return found;
    }

    static Map<String, Object> features() throws Exception {
        Map<String, Object> found = new TreeMap<>();
        for (Object feature : featureClass().getEnumConstants()) {
            String name = (String) called(feature, "featureName");
            if (name.contains("test")) continue;
            Map<String, Object> facts = new LinkedHashMap<>();
            facts.put("production", List.of(optional(feature, "minimumProduction", (short) 0), called(feature, "latestProduction")));
            Map<String, Object> versions = new LinkedHashMap<>();
            for (Object version : (Object[]) called(feature, "featureVersions")) {
                MetadataVersion bootstrap = (MetadataVersion) called(version, "bootstrapMetadataVersion");
                versions.put(called(version, "featureLevel").toString(),
                    Map.of("metadata_version", bootstrap.version(), "dependencies", new TreeMap<>((Map<?, ?>) called(version, "dependencies"))));
            }
            facts.put("versions", versions);
            found.put(name, facts);
        }
        return found;
    }

    /** `Features` of 3.9.1 is called `Feature` from 4.0 on. */
    static Class<?> featureClass() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.server.common.Feature");
        } catch (ClassNotFoundException old) {
            return Class.forName("org.apache.kafka.server.common.Features");
        }
    }

    /** The level of the first of these constants that the release has. */
    static MetadataVersion constant(String... names) throws ReflectiveOperationException {
        for (String name : names) {
            try {
                return (MetadataVersion) MetadataVersion.class.getField(name).get(null);
            } catch (NoSuchFieldException next) { }
        }
        throw new NoSuchFieldException(names[0]);
    }

    static Object optional(Object of, String name, Object otherwise) throws Exception {
        try {
            return called(of, name);
        } catch (NoSuchMethodException missing) {
            return otherwise;
        }
    }

    static Object called(Object of, String name) throws Exception {
        Method method = of.getClass().getMethod(name);
        method.setAccessible(true);
        return method.invoke(of);
    }

    /** What every method without arguments says of a level; null where it refuses that level. */
    static Map<String, Object> factsOf(MetadataVersion version) throws IllegalAccessException {
        Map<String, Object> facts = new TreeMap<>();
        for (Method method : MetadataVersion.class.getMethods()) {
            boolean isFact = method.getReturnType() == boolean.class || method.getReturnType() == short.class;
            if (!isFact || method.getParameterCount() > 0 || Modifier.isStatic(method.getModifiers())) continue;
            if (method.getDeclaringClass() != MetadataVersion.class) continue;
            try {
                facts.put(method.getName(), method.invoke(version));
            } catch (InvocationTargetException refused) {
                facts.put(method.getName(), null);
            }
        }
        return facts;
    }
}
