import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Fills messages by their schemas and prints their bytes and Kafka's JSON, a line each. Standard input has the messages:
 * a line is the schema of one, with the name of its Java class. The classes on the class path make the bytes.
 *
 * Vector 0 of a version has every field set, vector 1 has none, vectors 2 and 3 have a random choice. The last vector
 * of a flexible version has an unknown tagged field.
 */
public class GoldenBytes {
    static final ObjectMapper JSON = new ObjectMapper().enable(JsonParser.Feature.ALLOW_COMMENTS);
    static final int VECTORS = 4;
    static final int UNKNOWN_TAG = 180;
    static final int DEEPEST = 6;

    /** All fields, no field, or a random choice. */
    enum Choice { ALL, NONE, SOME }

    final Random random;
    final JsonNode schema;
    final short version;
    final Choice choice;
    final List<String> records = new ArrayList<>();

    GoldenBytes(JsonNode schema, short version, Choice choice, long seed) {
        this.schema = schema;
        this.version = version;
        this.choice = choice;
        this.random = new Random(seed);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode schema = JSON.readTree(line);
            int[] versions = range(schema.get("validVersions").asText());
            for (int version = versions[0]; version <= versions[1]; version++) {
                for (int i = 0; i < VECTORS; i++) System.out.println(JSON.writeValueAsString(vector(schema, (short) version, i)));
            }
        }
    }

    static ObjectNode vector(JsonNode schema, short version, int i) throws Exception {
        Choice choice = i == 0 ? Choice.ALL : i == 1 ? Choice.NONE : Choice.SOME;
        String name = schema.get("name").asText(), kind = schema.get("type").asText();
        GoldenBytes made = new GoldenBytes(schema, version, choice, (name + version).hashCode() * 31L + i);
        Message message = (Message) Class.forName(schema.get("class").asText()).getConstructor().newInstance();
        made.fill(message, schema.get("fields"), 0);
        ObjectNode line = JSON.createObjectNode();
        boolean isRpc = kind.equals("request") || kind.equals("response");
        line.put("api", isRpc ? name.substring(0, name.length() - kind.length()) : name);
        line.put("key", schema.has("apiKey") ? schema.get("apiKey").asInt() : -1);
        line.put("type", kind).put("version", version).put("i", i);
        if (isRpc) {
            ApiKeys api = ApiKeys.forId(schema.get("apiKey").asInt());
            line.put("headerVersion", kind.equals("request") ? api.requestHeaderVersion(version) : api.responseHeaderVersion(version));
        }
        JsonNode json = json(message, version);
        if (i == VECTORS - 1 && isIn(version, schema.get("flexibleVersions").asText())) {
            byte[] data = made.bytes(1 + made.random.nextInt(12));
            message.unknownTaggedFields().add(new RawTaggedField(UNKNOWN_TAG, data));
            line.putArray("unknownTags").addArray().add(UNKNOWN_TAG).add(HexFormat.of().formatHex(data));
        }
        line.put("hex", hex(message, version));
        line.set("json", json);
        if (!made.records.isEmpty()) made.records.forEach(line.putArray("records")::add);
        if (kind.equals("metadata")) line.put("framed", framed(message, version));
        return line;
    }

    static String hex(Message message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] data = new byte[buffer.remaining()];
        buffer.get(data);
        return HexFormat.of().formatHex(data);
    }

    /** With the frame version, the record's key and its version before it, as in the metadata log. */
    static String framed(Message message, short version) throws Exception {
        Object serde = Class.forName("org.apache.kafka.metadata.MetadataRecordSerde").getConstructor().newInstance();
        ApiMessageAndVersion value = new ApiMessageAndVersion((org.apache.kafka.common.protocol.ApiMessage) message, version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = (Integer) method(serde, "recordSize").invoke(serde, value, cache);
        ByteBuffer buffer = ByteBuffer.allocate(size);
        method(serde, "write").invoke(serde, value, cache, new ByteBufferAccessor(buffer));
        return HexFormat.of().formatHex(buffer.array());
    }

    /** The method with this name that takes a record, and not the bridge to it. */
    static Method method(Object of, String name) {
        for (Class<?> at = of.getClass(); at != null; at = at.getSuperclass()) {
            for (Method method : at.getDeclaredMethods()) {
                if (method.getName().equals(name) && method.getParameterTypes()[0] == ApiMessageAndVersion.class) return method;
            }
        }
        throw new AssertionError(name);
    }

    static JsonNode json(Message message, short version) throws Exception {
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        return (JsonNode) converter.getMethod("write", message.getClass(), short.class).invoke(null, message, version);
    }

    void fill(Object message, JsonNode fields, int depth) throws Exception {
        for (JsonNode field : fields) {
            if (!isIn(version, field.get("versions").asText())) continue;
            boolean mayBeNull = field.has("nullableVersions") && isIn(version, field.get("nullableVersions").asText());
            boolean must = isKey(field) || (field.get("type").asText().equals("records") && !mayBeNull);
            if (!must && (choice == Choice.NONE || choice == Choice.SOME && random.nextInt(3) == 0)) continue;
            String name = field.get("name").asText();
            Method setter = setter(message.getClass(), "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1));
            if (mayBeNull && choice == Choice.SOME && random.nextInt(3) == 0) setter.invoke(message, (Object) null);
            else setter.invoke(message, value(field.get("type").asText(), field, setter.getGenericParameterTypes()[0], depth));
        }
    }

    static boolean isKey(JsonNode field) {
        return field.has("mapKey") && field.get("mapKey").asBoolean();
    }

    static Method setter(Class<?> owner, String name) {
        for (Method method : owner.getMethods()) if (method.getName().equals(name)) return method;
        throw new AssertionError(owner + "." + name);
    }

    Object value(String type, JsonNode field, Type java, int depth) throws Exception {
        if (type.startsWith("[]")) return list(type.substring(2), field, java, depth);
        switch (type) {
            case "bool": return choice == Choice.ALL ? !field.path("default").asText("false").equals("true") : random.nextBoolean();
            case "int8": return (byte) number(Byte.MAX_VALUE, field);
            case "int16": return (short) number(Short.MAX_VALUE, field);
            case "uint16": return (int) number(65535, field) & 65535;
            case "int32": return (int) number(Integer.MAX_VALUE, field);
            case "uint32": return number(4294967295L, field) & 4294967295L;
            case "int64": return number(Long.MAX_VALUE, field);
            case "float64": return random.nextInt(1 << 20) / 64.0;
            case "string": return text();
            case "uuid": return new Uuid(random.nextLong(), random.nextLong());
            case "bytes": {
                byte[] data = bytes(1 + random.nextInt(20));
                return java == ByteBuffer.class ? ByteBuffer.wrap(data) : data;
            }
            case "records": {
                byte[] data = bytes(20);
                records.add(HexFormat.of().formatHex(data));
                Class<?> made = Class.forName(((Class<?>) java).getPackageName() + ".MemoryRecords");  // 4.4 moved it.
                return made.getMethod("readableRecords", ByteBuffer.class).invoke(null, ByteBuffer.wrap(data));
            }
            default: return struct(type, field, (Class<?>) java, depth + 1);
        }
    }

    Object struct(String type, JsonNode field, Class<?> java, int depth) throws Exception {
        if (depth > DEEPEST) throw new AssertionError(type);
        Object made = java.getConstructor().newInstance();
        JsonNode fields = field.get("fields");
        for (JsonNode each : schema.path("commonStructs")) if (each.get("name").asText().equals(type)) fields = each.get("fields");
        fill(made, fields, depth);
        return made;
    }

    @SuppressWarnings("unchecked")
    Object list(String element, JsonNode field, Type java, int depth) throws Exception {
        int count = choice == Choice.ALL ? 2 : random.nextInt(3);
        boolean isList = java instanceof ParameterizedType;
        Type inner = isList ? ((ParameterizedType) java).getActualTypeArguments()[0] : null;
        if (!isList) inner = ((ParameterizedType) ((Class<?>) java).getGenericSuperclass()).getActualTypeArguments()[0];
        Collection<Object> made = isList ? new ArrayList<>() : (Collection<Object>) ((Class<?>) java).getConstructor().newInstance();
        for (int k = 0; k < count; k++) {
            Object value = value(element, field, inner, depth);
            if (isList) made.add(value);
            else adder(made).invoke(made, value);
        }
        return made;
    }

    /** ImplicitLinkedHashCollection.add, whose package 4.4 changed. */
    static Method adder(Object collection) {
        for (Method method : collection.getClass().getMethods()) {
            if (method.getName().equals("add") && method.getParameterTypes()[0].getSimpleName().equals("Element")) return method;
        }
        throw new AssertionError(collection.getClass());
    }

    /** A number of any size that is not the default; now and then one at a border. */
    long number(long most, JsonNode field) {
        String default_ = field.path("default").asText("0");
        for (;;) {
            long found = switch (random.nextInt(4)) {
                case 0 -> most;
                case 1 -> -1;
                case 2 -> 1 + random.nextInt(120);
                default -> random.nextLong() & most;
            };
            if (choice != Choice.ALL || !Long.toString(found).equals(default_.isEmpty() ? "0" : default_)) return found;
        }
    }

    String text() {
        String[] begins = {"topic-", "größe-", "__cluster_metadata-", "x\u0000y-", "🦄-"};
        return begins[random.nextInt(begins.length)] + random.nextInt(100);
    }

    byte[] bytes(int count) {
        byte[] data = new byte[count];
        random.nextBytes(data);
        return data;
    }

    static boolean isIn(int version, String versions) {
        if (versions.equals("none")) return false;
        int[] range = range(versions);
        return range[0] <= version && version <= range[1];
    }

    static int[] range(String versions) {
        if (versions.endsWith("+")) return new int[] {Integer.parseInt(versions.substring(0, versions.length() - 1)), Short.MAX_VALUE};
        String[] ends = versions.split("-");
        return new int[] {Integer.parseInt(ends[0]), Integer.parseInt(ends[ends.length - 1])};
    }
}
