import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.ArrayOf;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.CompactArrayOf;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMemberMetadataValue;

/**
 * Writes test vectors for the wire codec with Kafka's own Java client.
 *
 * For every API that the definitions of kafka/proto know, every version, request and response, up to
 * four messages: "full" (values in all fields), "default" (as constructed), "null" (null wherever
 * the version allows it, also in elements) and "unknown" (full, with tagged fields nobody knows).
 * Values come from a counter, so a run is reproducible and no two fields of a message look alike.
 */
public final class Golden {
    private enum Shape { FULL, DEFAULT, NULL, UNKNOWN }

    private static final String[] TEXTS = {"plain", "grün", "東京", "🚀", "quote\"back\\slash\ttab\u0001", ""};

    private final Path out;
    private final ObjectMapper json = new ObjectMapper();
    private Shape shape;
    private int counter;

    private Golden(Path out) {
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        Path out = Path.of(args[0]);
        Path defs = out.resolve("../../kafka/proto/defs");
        Golden golden = new Golden(out);
        List<String> headers = new ArrayList<>();
        for (ApiMessageType type : ApiMessageType.values()) {
            String api = snake(type.name);
            if (Files.exists(defs.resolve(api + ".def"))) {
                golden.writeApi(type, api);
                golden.addHeaders(type, headers);
            }
        }
        headers.add(0, "# key version request-header response-header (correlation id 66051, client id \"golden-ü\")");
        Files.write(out.resolve("headers.txt"), headers);
        try (DirectoryStream<Path> records = Files.newDirectoryStream(defs.resolve("records"), "*.def")) {
            for (Path def : records) {
                golden.writeRecord(def.getFileName().toString().replace(".def", ""));
            }
        }
    }

    /** Key and value of a record of __consumer_offsets, or data that travels as bytes. */
    private void writeRecord(String record) throws Exception {
        Path folder = Files.createDirectories(out.resolve("records").resolve(record));
        if (record.startsWith("consumer_protocol_")) {
            Class<?> content = Class.forName("org.apache.kafka.common.message." + upperCamel(record));
            writeRecordVersions(folder, null, content);
        } else {
            String name = "org.apache.kafka.coordinator.group.generated." + upperCamel(record);
            writeRecordVersions(folder, Class.forName(name + "Key"), Class.forName(name + "Value"));
        }
    }

    private void writeRecordVersions(Path folder, Class<?> key, Class<?> value) throws Exception {
        Schema[] schemas = (Schema[]) value.getField("SCHEMAS").get(null);
        for (short v = 0; v < schemas.length; v++) {
            List<String> hexLines = new ArrayList<>();
            List<String> jsonLines = new ArrayList<>();
            if (key != null && v == 0) {
                addVectors("key", key, ((Schema[]) key.getField("SCHEMAS").get(null))[0], v, hexLines, jsonLines);
            }
            addVectors("value", value, schemas[v], v, hexLines, jsonLines);
            Files.write(folder.resolve("v" + v + ".hex"), hexLines);
            Files.write(folder.resolve("v" + v + ".json"), jsonLines);
        }
    }

    private void addVectors(String direction, Class<?> type, Schema schema, short version,
                            List<String> hexLines, List<String> jsonLines) throws Exception {
        for (Shape s : Shape.values()) {
            boolean flexible = Arrays.stream(schema.fields()).anyMatch(f -> f.def.type instanceof TaggedFields);
            if (s == Shape.UNKNOWN && !flexible) {
                continue;
            }
            shape = s;
            counter = 0;
            ApiMessage message = (ApiMessage) type.getDeclaredConstructor().newInstance();
            if (s != Shape.DEFAULT) {
                fill(message, schema);
            } else if (message instanceof ConsumerGroupMemberMetadataValue member) {
                member.setClassicMemberMetadata(null); /* As Kafka's coordinator does: always. */
            }
            String name = direction + " " + s.name().toLowerCase() + " ";
            hexLines.add(name + hex(message, version));
            jsonLines.add(name + json.writeValueAsString(toJson(message, version)));
        }
    }

    private void writeApi(ApiMessageType type, String api) throws Exception {
        Path folder = Files.createDirectories(out.resolve(api));
        for (short v = type.lowestSupportedVersion(); v <= type.highestSupportedVersion(true); v++) {
            List<String> hexLines = new ArrayList<>();
            List<String> jsonLines = new ArrayList<>();
            boolean flexible = type.requestHeaderVersion(v) >= 2;
            for (String direction : List.of("request", "response")) {
                boolean isRequest = direction.equals("request");
                Schema schema = (isRequest ? type.requestSchemas() : type.responseSchemas())[v];
                for (Shape s : Shape.values()) {
                    if (s == Shape.UNKNOWN && !flexible) {
                        continue;
                    }
                    shape = s;
                    counter = 0;
                    ApiMessage message = isRequest ? type.newRequest() : type.newResponse();
                    if (s != Shape.DEFAULT) {
                        fill(message, schema);
                    }
                    String name = direction + " " + s.name().toLowerCase() + " ";
                    hexLines.add((name + hex(message, v)).stripTrailing());
                    jsonLines.add(name + json.writeValueAsString(toJson(message, v)));
                }
            }
            Files.write(folder.resolve("v" + v + ".hex"), hexLines);
            Files.write(folder.resolve("v" + v + ".json"), jsonLines);
        }
    }

    private void addHeaders(ApiMessageType type, List<String> headers) {
        for (short v = type.lowestSupportedVersion(); v <= type.highestSupportedVersion(true); v++) {
            RequestHeaderData request = new RequestHeaderData()
                .setRequestApiKey(type.apiKey()).setRequestApiVersion(v)
                .setCorrelationId(0x010203).setClientId("golden-ü");
            ResponseHeaderData response = new ResponseHeaderData().setCorrelationId(0x010203);
            headers.add(type.apiKey() + " " + v + " " + hex(request, type.requestHeaderVersion(v))
                + " " + hex(response, type.responseHeaderVersion(v)));
        }
    }

    /** Sets every field that this version has. */
    private void fill(Message message, Schema schema) throws Exception {
        for (BoundField field : schema.fields()) {
            if (field.def.type instanceof TaggedFields tagged) {
                for (var known : tagged.fields().values()) {
                    set(message, known.name, known.type);
                }
                if (shape == Shape.UNKNOWN) {
                    message.unknownTaggedFields().add(new RawTaggedField(100 + counter++, new byte[] {1, 2, 3}));
                    message.unknownTaggedFields().add(new RawTaggedField(5000 + counter++, new byte[0]));
                }
            } else {
                set(message, field.def.name, field.def.type);
            }
        }
    }

    private void set(Message message, String name, Type type) throws Exception {
        Field field = find(message, name);
        field.setAccessible(true);
        if (shape == Shape.NULL && type.isNullable()) {
            field.set(message, null);
            return;
        }
        if (type instanceof ArrayOf || type instanceof CompactArrayOf) {
            field.set(message, array(field, type.arrayElementType().get(), field.get(message)));
        } else if (Message.class.isAssignableFrom(field.getType())) {
            Message inner = (Message) field.getType().getDeclaredConstructor().newInstance();
            fill(inner, schemaOf(type));
            field.set(message, inner);
        } else if (type == Type.UINT16) {
            field.set(message, 60000 + ++counter);
        } else {
            field.set(message, value(field.getType()));
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private Object array(Field field, Type element, Object before) throws Exception {
        Class<?> item = (Class<?>) (field.getGenericType() instanceof ParameterizedType p
            ? p.getActualTypeArguments()[0]
            : ((ParameterizedType) field.getType().getGenericSuperclass()).getActualTypeArguments()[0]);
        Collection items = before instanceof Collection c && !c.getClass().equals(ArrayList.class)
            ? (Collection) field.getType().getDeclaredConstructor().newInstance()
            : new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            if (Message.class.isAssignableFrom(item)) {
                Message inner = (Message) item.getDeclaredConstructor().newInstance();
                fill(inner, schemaOf(element));
                items.add(inner);
            } else {
                items.add(value(item));
            }
        }
        return items;
    }

    /** The schema of a struct type; nullable structs are wrapped. */
    private static Schema schemaOf(Type type) throws Exception {
        if (type instanceof Schema schema) {
            return schema;
        }
        for (Field field : type.getClass().getDeclaredFields()) {
            field.setAccessible(true);
            if (field.get(type) instanceof Schema schema) {
                return schema;
            }
        }
        throw new IllegalStateException("no schema in " + type);
    }

    private Object value(Class<?> type) {
        int n = ++counter;
        if (type == boolean.class || type == Boolean.class) {
            return n % 3 != 0;
        } else if (type == byte.class || type == Byte.class) {
            return (byte) (n % 2 == 0 ? -n : n);
        } else if (type == short.class || type == Short.class) {
            return (short) (n % 2 == 0 ? 300 + n : -2 - n);
        } else if (type == int.class || type == Integer.class) {
            return n % 5 == 0 ? -2 - n : 70000 + n;
        } else if (type == long.class || type == Long.class) {
            return n % 7 == 0 ? -2L - n : 5_000_000_000L + n;
        } else if (type == double.class) {
            return n + 0.25;
        } else if (type == Uuid.class) {
            return new Uuid(0x0102030405060708L * n, 0x1112131415161718L + n);
        } else if (type == byte[].class) {
            return new byte[] {(byte) n, 0, (byte) 0xff, 'b'};
        } else if (type == ByteBuffer.class) {
            return ByteBuffer.wrap(new byte[] {(byte) n, 1, 2});
        } else if (type == String.class) {
            return text(n);
        }
        return records(n);
    }

    private static String text(int n) {
        String text = TEXTS[n % TEXTS.length];
        if (n % 11 == 0) {
            return (text + "-").repeat(40); /* A compact length of two bytes. */
        }
        return text.isEmpty() ? text : text + n;
    }

    private static MemoryRecords records(int n) {
        return MemoryRecords.withRecords(1000 + n, Compression.NONE,
            new SimpleRecord(1_700_000_000_000L, "k".getBytes(StandardCharsets.UTF_8), new byte[] {(byte) n}),
            new SimpleRecord(1_700_000_000_005L, (byte[]) null, new byte[] {(byte) -n}));
    }

    private static Field find(Message message, String snake) throws NoSuchFieldException {
        for (Field field : message.getClass().getDeclaredFields()) {
            if (snake(field.getName()).equals(snake) || field.getName().equals(camel(snake))) {
                return field;
            }
        }
        throw new NoSuchFieldException(message.getClass() + " " + snake);
    }

    private static JsonNode toJson(ApiMessage message, short version) throws Exception {
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        Method write = converter.getMethod("write", message.getClass(), short.class, boolean.class);
        return (JsonNode) write.invoke(null, message, version, false);
    }

    private static String hex(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return HexFormat.of().formatHex(buffer.array());
    }

    private static String snake(String name) {
        return name.replaceAll("([A-Z]+)([A-Z][a-z])", "$1_$2")
            .replaceAll("([a-z0-9])([A-Z])", "$1_$2").toLowerCase();
    }

    private static String upperCamel(String snake) {
        String text = camel(snake);
        return text.substring(0, 1).toUpperCase() + text.substring(1);
    }

    private static String camel(String snake) {
        StringBuilder text = new StringBuilder();
        for (String part : snake.split("_")) {
            text.append(text.isEmpty() ? part : part.substring(0, 1).toUpperCase() + part.substring(1));
        }
        return text.toString();
    }
}
