import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Copy BROKERS FROM TO PARTITIONS START END: every record of FROM as a line "partition offset timestamp key value"
 * into TO. START is earliest or a timestamp; END is latest (as it is when the job starts) or an offset of each
 * partition, which need not be there yet.
 */
public final class Copy {
    /** One record as a line. */
    private static final class Line implements KafkaRecordDeserializationSchema<String> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<String> out) {
            out.collect(record.partition() + " " + record.offset() + " " + record.timestamp() + " "
                + text(record.key()) + " " + text(record.value()));
        }

        private static String text(byte[] bytes) {
            return bytes == null ? "null" : new String(bytes, StandardCharsets.UTF_8);
        }

        @Override
        public TypeInformation<String> getProducedType() {
            return Types.STRING;
        }
    }

    public static void main(String[] args) throws Exception {
        String brokers = args[0];
        String from = args[1];
        String to = args[2];
        Map<TopicPartition, Long> ends = new HashMap<>();
        for (int i = 0; i < Integer.parseInt(args[3]); i++) {
            ends.put(new TopicPartition(from, i), args[5].equals("latest") ? 0L : Long.parseLong(args[5]));
        }
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(brokers)
            .setPartitions(new HashSet<>(ends.keySet()))
            .setStartingOffsets(args[4].equals("earliest") ? OffsetsInitializer.earliest()
                : OffsetsInitializer.timestamp(Long.parseLong(args[4])))
            .setBounded(args[5].equals("latest") ? OffsetsInitializer.latest() : OffsetsInitializer.offsets(ends))
            .setProperty("commit.offsets.on.checkpoint", "false")
            .setDeserializer(new Line())
            .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(brokers)
            .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder().setTopic(to)
                .setValueSerializationSchema(new org.apache.flink.api.common.serialization.SimpleStringSchema())
                .build())
            .build();
        var environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(2);
        environment.enableCheckpointing(500);
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "source").sinkTo(sink);
        environment.execute("copy");
    }
}
