import java.util.Arrays;
import java.util.stream.Collectors;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints, as JSON, the codes of Errors of the jars on the class path: name, exception, whether a retry may succeed. */
public class ErrorFacts {
    public static void main(String[] arguments) {
        System.out.println(Arrays.stream(Errors.values()).map(ErrorFacts::row).collect(Collectors.joining(",\n", "{\n", "\n}")));
    }

    private static String row(Errors error) {
        ApiException exception = error.exception();
        String name = exception == null ? "null" : "\"" + exception.getClass().getSimpleName() + "\"";
        boolean isRetriable = exception instanceof RetriableException;
        return "  \"" + error.code() + "\": [\"" + error.name() + "\", " + name + ", " + isRetriable + "]";
    }
}
