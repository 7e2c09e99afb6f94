import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeProducersResult;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What Kafka's Admin client does. */
final class Admins {
    private Admins() {}

    /** An operation over an Admin of its own. */
    private interface WithAdmin {
        ObjectNode run(Admin admin, JsonNode args) throws Exception;
    }

    private static Driver.Operation with(WithAdmin operation) {
        return args -> {
            Map<String, Object> config = new HashMap<>(Security.settings());
            config.put("bootstrap.servers", args.get("bootstrap").asText());
            try (Admin admin = Admin.create(config)) {
                return operation.run(admin, args);
            }
        };
    }

    static void register(Map<String, Driver.Operation> operations) {
        operations.put("create_topic", with(Admins::createTopic));
        operations.put("delete_topic", with((admin, args) -> {
            admin.deleteTopics(List.of(topic(args))).all().get();
            return Driver.object();
        }));
        operations.put("create_partitions", with((admin, args) -> {
            admin.createPartitions(Map.of(topic(args), NewPartitions.increaseTo(args.get("count").asInt()))).all().get();
            return Driver.object();
        }));
        operations.put("list_topics", with(Admins::listTopics));
        operations.put("topic_configs", with(Admins::topicConfigs));
        operations.put("alter_topic_configs", with(Admins::alterTopicConfigs));
        operations.put("delete_records", with(Admins::deleteRecords));
        operations.put("list_groups", with(Admins::listGroups));
        operations.put("describe_group", with(Admins::describeGroup));
        operations.put("delete_group", with((admin, args) -> {
            admin.deleteConsumerGroups(List.of(args.get("group").asText())).all().get();
            return Driver.object();
        }));
        operations.put("committed", with(Admins::committed));
        operations.put("describe_cluster", with(Admins::describeCluster));
        operations.put("describe_topic", with(Admins::describeTopic));
        operations.put("describe_producers", with(Admins::describeProducers));
        operations.put("log_dirs", with(Admins::logDirs));
    }

    private static String topic(JsonNode args) {
        return args.get("topic").asText();
    }

    private static ObjectNode createTopic(Admin admin, JsonNode args) throws Exception {
        Map<String, String> configs = new HashMap<>();
        args.path("configs").properties().forEach(each -> configs.put(each.getKey(), each.getValue().asText()));
        NewTopic asked = new NewTopic(topic(args), args.get("partitions").asInt(), (short) 1).configs(configs);
        admin.createTopics(List.of(asked)).all().get();
        return Driver.object();
    }

    private static ObjectNode listTopics(Admin admin, JsonNode args) throws Exception {
        ObjectNode answer = Driver.object();
        ObjectNode topics = answer.putObject("topics");
        Collection<String> names = admin.listTopics().names().get();
        for (TopicDescription each : admin.describeTopics(names).allTopicNames().get().values()) {
            topics.put(each.name(), each.partitions().size());
        }
        return answer;
    }

    private static ObjectNode topicConfigs(Admin admin, JsonNode args) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic(args));
        ObjectNode answer = Driver.object();
        ObjectNode configs = answer.putObject("configs");
        ObjectNode sources = answer.putObject("sources");
        for (ConfigEntry each : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            configs.put(each.name(), each.value());
            sources.put(each.name(), each.source().name());
        }
        return answer;
    }

    private static ObjectNode alterTopicConfigs(Admin admin, JsonNode args) throws Exception {
        Collection<AlterConfigOp> changes = new ArrayList<>();
        args.get("configs").properties().forEach(each -> {
            ConfigEntry entry = new ConfigEntry(each.getKey(), each.getValue().asText());
            changes.add(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
        });
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic(args));
        admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
        return Driver.object();
    }

    private static TopicPartition where(JsonNode args) {
        return new TopicPartition(topic(args), args.get("partition").asInt());
    }

    private static ObjectNode deleteRecords(Admin admin, JsonNode args) throws Exception {
        RecordsToDelete before = RecordsToDelete.beforeOffset(args.get("before").asLong());
        long mark = admin.deleteRecords(Map.of(where(args), before)).lowWatermarks().get(where(args)).get().lowWatermark();
        return Driver.object().put("low_watermark", mark);
    }

    private static ObjectNode listGroups(Admin admin, JsonNode args) throws Exception {
        ObjectNode answer = Driver.object();
        ArrayNode groups = answer.putArray("groups");
        for (GroupListing each : admin.listGroups().all().get()) {
            groups.add(each.groupId());
        }
        return answer;
    }

    private static ObjectNode describeGroup(Admin admin, JsonNode args) throws Exception {
        String name = args.get("group").asText();
        ConsumerGroupDescription group = admin.describeConsumerGroups(List.of(name)).all().get().get(name);
        return Driver.object().put("state", group.groupState().toString()).put("members", group.members().size());
    }

    private static ObjectNode committed(Admin admin, JsonNode args) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> found =
                admin.listConsumerGroupOffsets(args.get("group").asText()).partitionsToOffsetAndMetadata().get();
        ObjectNode answer = Driver.object();
        ArrayNode offsets = answer.putArray("offsets");
        for (JsonNode partition : args.get("partitions")) {
            OffsetAndMetadata each = found.get(new TopicPartition(topic(args), partition.asInt()));
            offsets.add(each == null ? null : (Long) each.offset());
        }
        return answer;
    }

    private static ObjectNode describeCluster(Admin admin, JsonNode args) throws Exception {
        ObjectNode answer = Driver.object();
        answer.put("cluster_id", admin.describeCluster().clusterId().get());
        answer.put("controller", admin.describeCluster().controller().get().id());
        ArrayNode nodes = answer.putArray("nodes");
        for (Node each : admin.describeCluster().nodes().get()) {
            nodes.addObject().put("id", each.id()).put("host", each.host()).put("port", each.port());
        }
        return answer;
    }

    private static ObjectNode describeTopic(Admin admin, JsonNode args) throws Exception {
        TopicDescription described = admin.describeTopics(List.of(topic(args))).allTopicNames().get().get(topic(args));
        ObjectNode answer = Driver.object();
        answer.put("topic_id", described.topicId().toString()).put("internal", described.isInternal());
        ArrayNode partitions = answer.putArray("partitions");
        described.partitions().forEach(each -> partitions.addObject()
                .put("partition", each.partition())
                .put("leader", each.leader().id())
                .put("replicas", each.replicas().size())
                .put("isr", each.isr().size()));
        return answer;
    }

    private static ObjectNode describeProducers(Admin admin, JsonNode args) throws Exception {
        DescribeProducersResult result = admin.describeProducers(List.of(where(args)));
        ObjectNode answer = Driver.object();
        ArrayNode producers = answer.putArray("producers");
        result.partitionResult(where(args)).get().activeProducers().forEach(each -> producers.addObject()
                .put("producer_epoch", each.producerEpoch())
                .put("last_sequence", each.lastSequence()));
        return answer;
    }

    private static ObjectNode logDirs(Admin admin, JsonNode args) throws Exception {
        ObjectNode answer = Driver.object();
        ObjectNode sizes = answer.putObject("sizes");
        int broker = admin.describeCluster().nodes().get().iterator().next().id();
        admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker).values().forEach(
                dir -> dir.replicaInfos().forEach((each, info) -> sizes.put(each.toString(), info.size())));
        return answer;
    }
}
