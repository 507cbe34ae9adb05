import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** Kafka's own Java client under the contract of tests/interop/clients: BROKERS VERB ARGS, JSON lines out. */
public final class Client {
    private static final int LARGEST_REQUEST = 64 * 1024 * 1024;
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String brokers;
    private final PrintWriter out =
        new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)));

    private Client(String brokers) {
        this.brokers = brokers;
    }

    public static void main(String[] args) {
        if (args.length < 2) {
            System.err.println("usage: Client BROKERS versions|create|delete|produce|read|lookup|admin|member|pattern ARGS");
            System.exit(1);
        }
        Client client = new Client(args[0]);
        int exit = 0;
        try {
            client.run(args[1], List.of(args).subList(2, args.length));
        } catch (Exception failure) {
            System.err.println(describe(failure));
            exit = 1;
        }
        client.out.flush();
        System.exit(exit);
    }

    private static String describe(Throwable failure) {
        Throwable root = failure instanceof ExecutionException && failure.getCause() != null ? failure.getCause() : failure;
        return (root.getClass().getSimpleName() + ": " + root.getMessage()).replace('\n', ' ');
    }

    private void run(String verb, List<String> args) throws Exception {
        switch (verb) {
            case "versions" -> versions();
            case "create" -> create(args.get(0), Integer.parseInt(args.get(1)));
            case "delete" -> delete(args.get(0));
            case "produce" -> produce(args.get(0), args.get(1), args.get(2), args.get(3).equals("1"));
            case "read" -> read(args.get(0), Integer.parseInt(args.get(1)));
            case "lookup" -> lookup(new TopicPartition(args.get(0), Integer.parseInt(args.get(1))), Long.parseLong(args.get(2)));
            case "member" -> new Member(brokers, args).run();
            case "pattern" -> new Pattern(brokers, args).run();
            case "admin" -> new AdminCalls(this, args.get(0), Long.parseLong(args.get(1))).all();
            default -> throw new IllegalArgumentException("no such verb: " + verb);
        }
    }

    private void versions() {
        out.println(JSON.createObjectNode().put("client", "kafka-clients").put("version", AppInfoParser.getVersion()));
    }

    private void create(String topic, int partitions) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            admin.createTopics(List.of(new NewTopic(topic, Optional.of(partitions), Optional.empty()))).all().get();
        }
    }

    private void delete(String topic) throws Exception {
        try (Admin admin = Admin.create(settings())) {
            admin.deleteTopics(List.of(topic)).all().get();
        }
    }

    private void produce(String topic, String codec, String acks, boolean idempotent) throws Exception {
        if (idempotent && !acks.equals("-1") && !acks.equals("all")) {
            out.println(JSON.createObjectNode().put("unsupported", "the client's idempotence needs acks=all"));
            return;
        }
        Map<String, Object> settings = settings();
        settings.put("compression.type", codec);
        settings.put("acks", acks);
        settings.put("enable.idempotence", idempotent);
        settings.put("max.request.size", LARGEST_REQUEST);
        settings.put("buffer.memory", (long) LARGEST_REQUEST);
        settings.put("linger.ms", 5);
        settings.put("max.block.ms", PATIENCE.toMillis());
        settings.put("delivery.timeout.ms", (int) PATIENCE.toMillis());
        settings.put("request.timeout.ms", (int) PATIENCE.toMillis() / 2);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                sent.add(producer.send(recordOf(topic, JSON.readTree(line))));
            }
            producer.flush();
            for (Future<RecordMetadata> one : sent) {
                RecordMetadata at = one.get();
                out.println(JSON.createObjectNode().put("partition", at.partition()).put("offset", at.offset()));
            }
        }
    }

    private void read(String topic, int partitions) {
        List<TopicPartition> all = new ArrayList<>();
        for (int i = 0; i < partitions; i++) {
            all.add(new TopicPartition(topic, i));
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            long last = System.nanoTime();
            while (!all.stream().allMatch(p -> consumer.position(p) >= ends.get(p))) {
                var records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<byte[], byte[]> one : records) {
                    if (one.offset() < ends.get(new TopicPartition(one.topic(), one.partition()))) {
                        out.println(jsonOf(one));
                    }
                }
                if (!records.isEmpty()) {
                    last = System.nanoTime();
                } else if (System.nanoTime() - last > PATIENCE.toNanos()) {
                    throw new IllegalStateException("nothing for " + PATIENCE.toSeconds() + " s before the end " + ends);
                }
            }
        }
    }

    private void lookup(TopicPartition partition, long timestamp) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, timestamp)).get(partition);
            out.println(JSON.createObjectNode()
                .put("offset", found == null ? -1 : found.offset())
                .put("timestamp", found == null ? -1 : found.timestamp()));
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Map<String, Object> settings = settings();
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "none");
        settings.put("default.api.timeout.ms", (int) PATIENCE.toMillis());
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** What "produce by default" does: nothing is set but the brokers. */
    int produceByDefault(String topic) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        Map<String, Object> brokersOnly = Map.of("bootstrap.servers", brokers);
        try (var producer = new KafkaProducer<>(brokersOnly, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 0; i < 100; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, Integer.toString(i).getBytes(StandardCharsets.UTF_8))));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        }
        return sent.size();
    }

    /** A line of the verb admin. */
    void call(String name, JsonNode answer) {
        out.println(JSON.createObjectNode().put("call", name).set("answer", answer));
    }

    Map<String, Object> settings() {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", brokers);
        settings.put("client.id", "interop-java");
        return settings;
    }

    private static ProducerRecord<byte[], byte[]> recordOf(String topic, JsonNode line) throws IOException {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : line.path("headers")) {
            headers.add(new RecordHeader(header.get(0).textValue(), bytes(header.get(1))));
        }
        JsonNode partition = line.path("partition");
        JsonNode timestamp = line.path("timestamp");
        return new ProducerRecord<>(topic,
            partition.isNumber() ? partition.intValue() : null,
            timestamp.isNumber() ? timestamp.longValue() : null,
            bytes(line.path("key")), bytes(line.path("value")), headers);
    }

    private static ObjectNode jsonOf(ConsumerRecord<byte[], byte[]> one) {
        ObjectNode line = JSON.createObjectNode().put("partition", one.partition()).put("offset", one.offset());
        line.put("key", text(one.key())).put("value", text(one.value()));
        ArrayNode headers = line.putArray("headers");
        for (Header header : one.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return line.put("timestamp", one.timestamp());
    }

    private static byte[] bytes(JsonNode node) {
        return node == null || !node.isTextual() ? null : Base64.getDecoder().decode(node.textValue());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
