import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * The words of the topic "lines", counted into the topic "counts" (word, count as text). Arguments: brokers, a directory for
 * its state, the group protocol. It says "running" when it is, and exits with 1 at the first thing that goes wrong.
 */
public final class WordCount {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "word-count");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[1]);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, args[2]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", 6000);
        settings.put("heartbeat.interval.ms", 500);

        var builder = new StreamsBuilder();
        builder.<String, String>stream("lines")
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")))
            .mapValues(count -> Long.toString(count))
            .toStream()
            .to("counts", Produced.with(Serdes.String(), Serdes.String()));

        var streams = new KafkaStreams(builder.build(), settings);
        var ends = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(wrong -> {
            for (Throwable cause = wrong; cause != null; cause = cause.getCause()) {
                System.out.println("failed: " + cause);
            }
            ends.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                System.out.println("running");
            }
        });
        streams.start();
        var watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
                streams.close();
                System.out.println("closed");
                Runtime.getRuntime().halt(0);
            } catch (java.io.IOException gone) {
                Runtime.getRuntime().halt(2);
            }
        });
        watch.setDaemon(true);
        watch.start();
        ends.await();
        streams.close(java.time.Duration.ofSeconds(5));
        Runtime.getRuntime().halt(1);
    }
}
