import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** consume, offsets_for_times, bounds: consumers that assign their partitions themselves. */
final class Consumers {
    private Consumers() {}

    static void register(Map<String, Driver.Operation> operations) {
        operations.put("consume", Consumers::consume);
        operations.put("offsets_for_times", Consumers::offsetsForTimes);
        operations.put("bounds", Consumers::bounds);
    }

    static KafkaConsumer<byte[], byte[]> open(JsonNode args, Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(more);
        config.put("bootstrap.servers", args.get("bootstrap").asText());
        config.putAll(Security.settings());
        config.put("enable.auto.commit", false);
        config.put("max.partition.fetch.bytes", 4 << 20);
        config.put("max.poll.records", 5000);
        config.put("reconnect.backoff.max.ms", 200);
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        return new KafkaConsumer<>(config, bytes, bytes);
    }

    private static KafkaConsumer<byte[], byte[]> plain(JsonNode args) {
        return open(args, Map.of("auto.offset.reset", "none"));
    }

    /** Loss, doubles and disorder of generated records, without carrying them. */
    private static final class Summary {
        private final Map<Integer, long[]> last = new HashMap<>();
        private long bytes;
        private long crc;
        private int count;
        private boolean ordered = true;

        void add(ConsumerRecord<byte[], byte[]> record) {
            long number = Long.parseLong(new String(record.value(), 0, 8));
            long[] before = last.get(record.partition());
            ordered &= before == null || record.offset() > before[0] && number > before[1];
            last.put(record.partition(), new long[] {record.offset(), number});
            CRC32 sum = new CRC32();
            sum.update(record.value());
            crc = crc + sum.getValue() & 0xFFFFFFFFL;
            bytes += record.value().length;
            count++;
        }

        ObjectNode answer() {
            return Driver.object().put("count", count).put("bytes", bytes).put("crc", crc).put("ordered", ordered);
        }
    }

    private static void add(ArrayNode records, ConsumerRecord<byte[], byte[]> record) {
        ObjectNode node = records.addObject();
        node.put("partition", record.partition()).put("offset", record.offset());
        node.put("timestamp", record.timestamp()).put("timestamp_type", record.timestampType().id);
        node.put("key", record.key()).put("value", record.value());
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
    }

    private static ObjectNode consume(JsonNode args) {
        List<TopicPartition> partitions = new ArrayList<>();
        for (JsonNode partition : args.get("partitions")) {
            partitions.add(new TopicPartition(args.get("topic").asText(), partition.asInt()));
        }
        boolean summary = args.path("summary").asBoolean();
        Summary sums = new Summary();
        ObjectNode answer = Driver.object();
        ArrayNode records = answer.putArray("records");
        long deadline = System.currentTimeMillis() + args.get("timeout_ms").asLong();
        int wanted = args.get("count").asInt();
        try (KafkaConsumer<byte[], byte[]> consumer = plain(args)) {
            consumer.assign(partitions);
            if (args.get("offset").isTextual()) {
                consumer.seekToBeginning(partitions);
            } else {
                partitions.forEach(each -> consumer.seek(each, args.get("offset").asLong()));
            }
            int taken = 0;
            while (taken < wanted && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (taken++ >= wanted) {
                        break;
                    }
                    if (summary) {
                        sums.add(record);
                    } else {
                        add(records, record);
                    }
                }
            }
        }
        return summary ? sums.answer() : answer;
    }

    private static ObjectNode offsetsForTimes(JsonNode args) {
        TopicPartition where = new TopicPartition(args.get("topic").asText(), args.get("partition").asInt());
        ObjectNode answer = Driver.object();
        ArrayNode offsets = answer.putArray("offsets");
        try (KafkaConsumer<byte[], byte[]> consumer = plain(args)) {
            for (JsonNode timestamp : args.get("timestamps")) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(where, timestamp.asLong())).get(where);
                offsets.add(found == null ? null : (Long) found.offset());
            }
        }
        return answer;
    }

    private static ObjectNode bounds(JsonNode args) {
        TopicPartition where = new TopicPartition(args.get("topic").asText(), args.get("partition").asInt());
        try (KafkaConsumer<byte[], byte[]> consumer = plain(args)) {
            long earliest = consumer.beginningOffsets(List.of(where)).get(where);
            long latest = consumer.endOffsets(List.of(where)).get(where);
            return Driver.object().put("earliest", earliest).put("latest", latest);
        }
    }
}
