import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.protocol.Errors;

/** The verb admin: each call's name and answer. */
final class AdminCalls {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Client client;
    private final String topic;
    private final long timestamp;

    AdminCalls(Client client, String topic, long timestamp) {
        this.client = client;
        this.topic = topic;
        this.timestamp = timestamp;
    }

    private interface Question {
        Object ask() throws Exception;
    }

    private void call(String name, Question question) throws Exception {
        try {
            client.call(name, JSON.<JsonNode>valueToTree(question.ask()));
        } catch (ExecutionException failure) {
            throw new IllegalStateException(name + ": " + failure.getCause(), failure);
        }
    }

    /** The code of the error that is due. */
    private void refused(String name, Question question) throws Exception {
        call(name, () -> {
            try {
                return question.ask();
            } catch (ExecutionException failure) {
                return Errors.forException(failure.getCause()).code();
            }
        });
    }

    void all() throws Exception {
        try (Admin admin = Admin.create(client.settings())) {
            topics(admin);
            configs(admin);
            partitions(admin);
        }
        call("produce by default", () -> client.produceByDefault(topic + "-default"));
    }

    private void topics(Admin admin) throws Exception {
        String other = topic + "-no";
        call("describe cluster", () -> admin.describeCluster().nodes().get().stream().map(Node::id).toList());
        call("list topics", () -> admin.listTopics().names().get().contains(topic));
        call("describe topic", () -> partitionsOf(admin, topic));
        refused("describe missing topic", () -> partitionsOf(admin, other));
        call("check a creation", () -> {
            admin.createTopics(List.of(new NewTopic(other, 1, (short) -1)), new CreateTopicsOptions().validateOnly(true)).all().get();
            return admin.listTopics().names().get().contains(other);
        });
    }

    private static int partitionsOf(Admin admin, String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
    }

    private static String config(Admin admin, ConfigResource.Type type, String name, String entry) throws Exception {
        var resource = new ConfigResource(type, name);
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get(entry).value();
    }

    private String altered(Admin admin, AlterConfigOp.OpType type, String value) throws Exception {
        var change = new AlterConfigOp(new ConfigEntry("retention.ms", value), type);
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic), List.of(change))).all().get();
        return config(admin, ConfigResource.Type.TOPIC, topic, "retention.ms");
    }

    private void configs(Admin admin) throws Exception {
        call("describe topic config", () -> config(admin, ConfigResource.Type.TOPIC, topic, "retention.ms"));
        call("alter topic config", () -> altered(admin, AlterConfigOp.OpType.SET, "1234567890"));
        call("reset topic config", () -> altered(admin, AlterConfigOp.OpType.DELETE, ""));
        refused("refused topic config", () -> altered(admin, AlterConfigOp.OpType.SET, "soon"));
        call("describe broker config", () -> config(admin, ConfigResource.Type.BROKER, "1", "message.max.bytes"));
    }

    private long offset(Admin admin, OffsetSpec at) throws Exception {
        var partition = new TopicPartition(topic, 1);
        return admin.listOffsets(Map.of(partition, at)).partitionResult(partition).get().offset();
    }

    private void partitions(Admin admin) throws Exception {
        call("add partitions", () -> {
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            return partitionsOf(admin, topic);
        });
        call("earliest offset", () -> offset(admin, OffsetSpec.earliest()));
        call("latest offset", () -> offset(admin, OffsetSpec.latest()));
        call("offset of latest time", () -> offset(admin, OffsetSpec.maxTimestamp()));
        call("offset for a time", () -> offset(admin, OffsetSpec.forTimestamp(timestamp)));
        call("delete records", () -> {
            var partition = new TopicPartition(topic, 1);
            var deleted = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(4)));
            return deleted.lowWatermarks().get(partition).get().lowWatermark();
        });
        call("elect leaders", () -> {
            var partition = new TopicPartition(topic, 0);
            var elected = admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get();
            return elected.get(partition).map(error -> Errors.forException(error).code()).orElse((short) 0);
        });
        call("log directories", () -> {
            var dirs = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).values();
            return dirs.stream().anyMatch(dir -> dir.replicaInfos().containsKey(new TopicPartition(topic, 1)));
        });
    }
}
