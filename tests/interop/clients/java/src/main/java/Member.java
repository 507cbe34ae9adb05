import java.io.IOException;
import java.io.PrintStream;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The verb member: one consumer in a group, until its input closes. */
final class Member implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(50);
    private static final long COMMIT_NS = 200_000_000;

    private final PrintStream out = new PrintStream(System.out, true);
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final String topic;
    private final Map<TopicPartition, OffsetAndMetadata> received = new HashMap<>(); // And not committed.
    private volatile boolean isAskedToEnd = false;

    /** GROUP TOPIC PROTOCOL INSTANCE SESSION_MS HEARTBEAT_MS; of the protocol consumer, the broker has the times. */
    Member(String brokers, List<String> args) {
        topic = args.get(1);
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", brokers, "group.id", args.get(0),
            "auto.offset.reset", "earliest", "enable.auto.commit", "false", "fetch.max.wait.ms", "100",
            "reconnect.backoff.max.ms", "200"));
        if (args.get(2).equals("consumer")) {
            config.put("group.protocol", "consumer");
        } else {
            config.put("partition.assignment.strategy",
                args.get(2).equals("range") ? RangeAssignor.class.getName() : CooperativeStickyAssignor.class.getName());
            config.put("session.timeout.ms", args.get(4));
            config.put("heartbeat.interval.ms", args.get(5));
        }
        if (!args.get(3).equals("-")) {
            config.put("group.instance.id", args.get(3));
        }
        consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    void run() {
        say("ready", null);
        awaitByte('\n');
        Thread input = new Thread(() -> awaitByte(-1));
        input.setDaemon(true);
        input.start();
        consumer.subscribe(List.of(topic), this);
        long due = System.nanoTime();
        while (!isAskedToEnd) {
            try {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                    say("record", "\"partition\":" + record.partition() + ",\"offset\":" + record.offset());
                    received.put(new TopicPartition(topic, record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
            } catch (KafkaException failure) {
                say("error", "\"error\":\"" + name(failure) + "\"");
            }
            if (System.nanoTime() - due >= 0) {
                commit(consumer.assignment());
                due = System.nanoTime() + COMMIT_NS;
            }
        }
        consumer.close();
        say("closed", null);
    }

    private void awaitByte(int awaited) {
        try {
            int next;
            do {
                next = System.in.read();
            } while (next >= 0 && next != awaited);
            isAskedToEnd = next < 0;
        } catch (IOException closed) {
            isAskedToEnd = true;
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        sayPartitions("assigned", partitions);
        received.keySet().removeAll(partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit(partitions);
        sayPartitions("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        sayPartitions("lost", partitions);
    }

    private void commit(Collection<TopicPartition> of) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>(received);
        offsets.keySet().retainAll(of);
        if (offsets.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(offsets);
        } catch (KafkaException refusal) {
            say("refused", "\"error\":\"" + name(refusal) + "\"");
            return;
        }
        received.keySet().removeAll(offsets.keySet());
        say("committed", offsets.entrySet().stream()
            .map(entry -> "\"" + entry.getKey().partition() + "\":" + entry.getValue().offset())
            .collect(Collectors.joining(",", "\"offsets\":{", "}")));
    }

    /** As the protocol calls it, or the exception where it is none of the protocol's. */
    private static String name(KafkaException failure) {
        Throwable cause = failure instanceof ApiException || failure.getCause() == null ? failure : failure.getCause();
        Errors error = Errors.forException(cause);
        return error == Errors.UNKNOWN_SERVER_ERROR ? cause.getClass().getSimpleName() : error.name();
    }

    private void sayPartitions(String event, Collection<TopicPartition> partitions) {
        if (!partitions.isEmpty()) {
            say(event, partitions.stream().map(partition -> String.valueOf(partition.partition()))
                .collect(Collectors.joining(",", "\"partitions\":[", "]")));
        }
    }

    private void say(String event, String fields) {
        out.println("{\"at\":" + System.nanoTime() + ",\"event\":\"" + event + "\"" + (fields == null ? "" : "," + fields) + "}");
    }
}
