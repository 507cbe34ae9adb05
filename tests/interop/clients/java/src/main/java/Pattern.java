import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The verb pattern: a consumer of all topics that a pattern of the broker's matches, until its input closes. */
final class Pattern implements ConsumerRebalanceListener {
    private final PrintStream out = new PrintStream(System.out, true);
    private final String brokers;
    private final String group;
    private final String pattern;
    private volatile boolean isAskedToEnd = false;

    /** GROUP PATTERN */
    Pattern(String brokers, List<String> args) {
        this.brokers = brokers;
        group = args.get(0);
        pattern = args.get(1);
    }

    void run() {
        // Before it gives a deleted topic up, 4.3.1 tries to commit its offset until the rebalance timeout (UNKNOWN_TOPIC_ID).
        Map<String, Object> config = Map.of("bootstrap.servers", brokers, "group.id", group, "group.protocol", "consumer",
            "auto.offset.reset", "earliest", "fetch.max.wait.ms", "100", "enable.auto.commit", "false");
        Thread input = new Thread(this::awaitEnd);
        input.setDaemon(true);
        input.start();
        try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(new SubscriptionPattern(pattern), this);
            while (!isAskedToEnd) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                    out.println("{\"event\":\"record\",\"topic\":\"" + record.topic() + "\",\"value\":\""
                        + new String(record.value(), StandardCharsets.UTF_8) + "\"}");
                }
            }
        } catch (KafkaException failure) {
            out.println("{\"event\":\"error\",\"error\":\"" + Errors.forException(failure).name() + "\"}");
        }
    }

    private void awaitEnd() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException closed) {
            // As an end.
        }
        isAskedToEnd = true;
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        say("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        say("revoked", partitions);
    }

    private void say(String event, Collection<TopicPartition> partitions) {
        out.println(partitions.stream().map(partition -> "\"" + partition.topic() + "\"").distinct()
            .collect(Collectors.joining(",", "{\"event\":\"" + event + "\",\"topics\":[", "]}")));
    }
}
