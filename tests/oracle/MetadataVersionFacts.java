import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.server.common.MetadataVersion;

/** Prints, as JSON, what MetadataVersion of the jars on the class path answers for every level that KRaft has. */
public class MetadataVersionFacts {
    public static void main(String[] arguments) throws Exception {
        StringBuilder levels = new StringBuilder();
        for (MetadataVersion version : MetadataVersion.VERSIONS) {
            if (version.featureLevel() < 1) continue;
            Map<String, Object> facts = new TreeMap<>();
            for (Method method : MetadataVersion.class.getMethods()) {
                boolean isFact = method.getReturnType() == boolean.class || method.getReturnType() == short.class;
                if (!isFact || method.getParameterCount() > 0 || Modifier.isStatic(method.getModifiers())) continue;
                if (method.getDeclaringClass() != MetadataVersion.class) continue;
                Object answer;
                try {
                    answer = method.invoke(version);
                } catch (java.lang.reflect.InvocationTargetException refused) {
                    answer = null;
                }
                facts.put(method.getName(), answer);
            }
            String members = facts.entrySet().stream()
                .map(fact -> "\"" + fact.getKey() + "\": " + fact.getValue())
                .collect(Collectors.joining(", "));
            levels.append(levels.length() > 0 ? ",\n" : "").append("  \"" + version.version() + "\": {" + members + "}");
        }
        System.out.println("{\n" + levels + "\n}");
    }
}
