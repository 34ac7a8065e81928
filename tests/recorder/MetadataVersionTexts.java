import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Prints, as JSON, what MetadataVersion.fromVersionString of the jars on the class path makes of texts: by text, the
 * feature level without and with unstable.feature.versions.enable; null where it refuses the text.
 */
public class MetadataVersionTexts {
    public static void main(String[] arguments) throws Exception {
        Set<String> texts = new LinkedHashSet<>();
        for (int major = 0; major < 6; major++) {
            for (int minor = -1; minor < 12; minor++) {
                String release = minor < 0 ? "" + major : major + "." + minor;
                for (String more : new String[] {"", ".", ".0", ".1", ".1.2", ".x", "-IV0", "-IV1", "-IV3", "-IV9", "-IV1.5"}) {
                    texts.add(release + more);
                }
            }
        }
        for (String text : new String[] {"", ".", "..", "3", "v4.0", "4.0 ", " 4.0", "4,0", "4.0-iv0", "4.0-IV", "4.0..", "4..0", "latest", "0.10.2", "0.10.2-IV0", "0.11.0.1", "١.0"}) {
            texts.add(text);
        }
        System.out.println(texts.stream()
            .map(text -> "  \"" + escaped(text) + "\": [" + level(text, false) + ", " + level(text, true) + "]")
            .collect(Collectors.joining(",\n", "{\n", "\n}")));
    }

    static String escaped(String text) {
        return text.chars().mapToObj(c -> c < 128 ? "" + (char) c : String.format("\\u%04x", c)).collect(Collectors.joining());
    }

    static Short level(String text, boolean unstable) {
        try {
            MetadataVersion found = parsed(text, unstable);
            boolean isKraft = found.featureLevel() > 0;
            return isKraft && (unstable || found.isProduction()) ? found.featureLevel() : null;
        } catch (InvocationTargetException refused) {
            return null;
        } catch (ReflectiveOperationException missing) {
            throw new AssertionError(missing);
        }
    }

    /** 3.9.1 takes unstable levels here, and refuses them when it formats. */
    static MetadataVersion parsed(String text, boolean unstable) throws ReflectiveOperationException {
        try {
            Method method = MetadataVersion.class.getMethod("fromVersionString", String.class, boolean.class);
            return (MetadataVersion) method.invoke(null, text, unstable);
        } catch (NoSuchMethodException old) {
            return (MetadataVersion) MetadataVersion.class.getMethod("fromVersionString", String.class).invoke(null, text);
        }
    }
}
