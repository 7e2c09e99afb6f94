import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** share_open, share_poll, share_acknowledge, share_commit, share_close: members of share groups. */
final class Sharers {
    private static final Map<String, Sharer> OPEN = new HashMap<>();

    private Sharers() {}

    static void register(Map<String, Driver.Operation> operations) {
        operations.put("share_open", args -> {
            OPEN.put(args.get("handle").asText(), new Sharer(args));
            return Driver.object();
        });
        operations.put("share_poll", args -> of(args).poll(args.get("timeout_ms").asInt()));
        operations.put("share_acknowledge", args -> of(args).acknowledge(args));
        operations.put("share_commit", args -> of(args).commit());
        operations.put("share_close", args -> {
            OPEN.remove(args.get("handle").asText()).consumer.close();
            return Driver.object();
        });
    }

    private static Sharer of(JsonNode args) {
        return OPEN.get(args.get("handle").asText());
    }

    private static final class Sharer {
        private final KafkaShareConsumer<byte[], byte[]> consumer;
        private final Map<Long, ConsumerRecord<byte[], byte[]>> polled = new HashMap<>();

        Sharer(JsonNode args) {
            Map<String, Object> config = new HashMap<>();
            config.put("bootstrap.servers", args.get("bootstrap").asText());
            config.putAll(Security.settings());
            config.put("group.id", args.get("group").asText());
            config.put("share.acknowledgement.mode", args.get("mode").asText());
            config.put("max.poll.records", args.get("max_poll_records").asInt());
            config.put("share.acquire.mode", args.get("acquire_mode").asText());
            config.put("reconnect.backoff.max.ms", 200);
            ByteArrayDeserializer bytes = new ByteArrayDeserializer();
            consumer = new KafkaShareConsumer<>(config, bytes, bytes);
            List<String> topics = new ArrayList<>();
            args.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics);
        }

        /** Offsets are kept without their partition: the tests have topics of one partition. */
        ObjectNode poll(int timeoutMs) {
            ObjectNode answer = Driver.object();
            ArrayNode records = answer.putArray("records");
            for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(timeoutMs))) {
                polled.put(each.offset(), each);
                records.add(Driver.JSON.createArrayNode()
                        .add(each.offset())
                        .add(each.deliveryCount().orElse((short) 0))
                        .add(each.value()));
            }
            answer.put("lock_ms", consumer.acquisitionLockTimeoutMs().orElse(-1));
            return answer;
        }

        ObjectNode acknowledge(JsonNode args) {
            AcknowledgeType type = AcknowledgeType.valueOf(args.get("type").asText());
            args.get("offsets").forEach(offset -> consumer.acknowledge(polled.get(offset.asLong()), type));
            return Driver.object();
        }

        ObjectNode commit() {
            ArrayNode codes = Driver.JSON.createArrayNode();
            for (Optional<KafkaException> each : new ArrayList<>(commitSync().values())) {
                codes.add(each.map(thrown -> (int) Errors.forException(thrown).code()).orElse(0));
            }
            return (ObjectNode) Driver.object().set("codes", codes);
        }

        private Map<TopicIdPartition, Optional<KafkaException>> commitSync() {
            return consumer.commitSync(Duration.ofSeconds(60));
        }
    }
}
