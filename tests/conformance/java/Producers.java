import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** produce_open, produce, flood, produce_close. */
final class Producers {
    private static final Map<String, KafkaProducer<byte[], byte[]>> OPEN = new HashMap<>();

    private Producers() {}

    static void register(Map<String, Driver.Operation> operations) {
        operations.put("produce_open", Producers::open);
        operations.put("produce", Producers::produce);
        operations.put("flood", Producers::flood);
        operations.put("produce_close", Producers::close);
        operations.put("transact", Producers::transact);
    }

    private static ObjectNode open(JsonNode args) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", args.get("bootstrap").asText());
        config.putAll(Security.settings());
        config.put("acks", args.get("acks").asText());
        config.put("compression.type", args.get("compression").asText());
        config.put("enable.idempotence", args.get("idempotent").asBoolean());
        config.put("max.request.size", 4 << 20);
        config.put("reconnect.backoff.max.ms", 200);
        config.put("linger.ms", args.path("linger_ms").asInt(5));
        ByteArraySerializer bytes = new ByteArraySerializer();
        OPEN.put(args.get("handle").asText(), new KafkaProducer<>(config, bytes, bytes));
        return Driver.object();
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, JsonNode node) throws Exception {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : node.path("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), Driver.bytes(header.get(1))));
        }
        Integer partition = node.hasNonNull("partition") ? node.get("partition").asInt() : null;
        Long timestamp = node.hasNonNull("timestamp") ? node.get("timestamp").asLong() : null;
        byte[] key = Driver.bytes(node.get("key"));
        return new ProducerRecord<>(topic, partition, timestamp, key, Driver.bytes(node.get("value")), headers);
    }

    private static ObjectNode produce(JsonNode args) throws Exception {
        KafkaProducer<byte[], byte[]> producer = OPEN.get(args.get("handle").asText());
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        for (JsonNode node : args.get("records")) {
            futures.add(producer.send(record(args.get("topic").asText(), node)));
        }
        producer.flush();
        ObjectNode answer = Driver.object();
        ArrayNode results = answer.putArray("results");
        for (Future<RecordMetadata> future : futures) {
            try {
                RecordMetadata done = future.get();
                results.addObject().put("partition", done.partition()).put("offset", done.offset());
            } catch (ExecutionException error) {
                if (!args.path("outcomes").asBoolean()) {
                    throw error;
                }
                ObjectNode told = results.addObject().putObject("error");
                told.put("kind", error.getCause().getClass().getSimpleName());
                told.put("message", error.getCause().getMessage());
            }
        }
        return answer;
    }

    private static ObjectNode flood(JsonNode args) throws Exception {
        KafkaProducer<byte[], byte[]> producer = OPEN.get(args.get("handle").asText());
        String topic = args.get("topic").asText();
        int partitions = args.get("partitions").asInt();
        int rate = args.path("rate_per_s").asInt(0);
        long began = System.nanoTime();
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        for (int index = 0; index < args.get("count").asInt(); index++) {
            byte[] value = Driver.floodValue(index, args.get("size").asInt());
            byte[] key = Integer.toString(index).getBytes();
            futures.add(producer.send(new ProducerRecord<>(topic, index % partitions, key, value)));
            if (rate > 0 && index % 50 == 49) {
                long late = began + index * 1_000_000_000L / rate - System.nanoTime();
                Thread.sleep(Math.max(0, late / 1_000_000));
            }
        }
        producer.flush();
        for (Future<RecordMetadata> future : futures) {
            future.get();
        }
        return Driver.object().put("acked", futures.size());
    }

    private static ObjectNode transact(JsonNode args) throws Exception {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", args.get("bootstrap").asText());
        config.putAll(Security.settings());
        config.put("transactional.id", args.get("id").asText());
        config.put("max.block.ms", args.get("timeout_ms").asLong());
        ByteArraySerializer bytes = new ByteArraySerializer();
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, bytes, bytes);
        try {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(args.get("topic").asText(), "in a transaction".getBytes()));
            if (args.has("for_ms")) {
                producer.flush();
                Thread.sleep(args.get("for_ms").asLong());
                producer.send(new ProducerRecord<>(args.get("topic").asText(), "in a transaction".getBytes()));
            }
            producer.commitTransaction();
        } finally {
            producer.close(Duration.ZERO);
        }
        return Driver.object();
    }

    private static ObjectNode close(JsonNode args) {
        OPEN.remove(args.get("handle").asText()).close();
        return Driver.object();
    }
}
