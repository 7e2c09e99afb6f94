import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Measures what Kafka's EndToEndLatency measures, with a microsecond timer: one record at a time is sent and awaited,
 * then polled for; the clock runs from before send() to after the poll() that returned it. The settings are that tool's
 * (linger.ms 0, fetch.max.wait.ms 0); percentiles exclude the warm-up records.
 *
 * Arguments: bootstrap servers, topic (1 partition), warm-up records, measured records, acks, record size.
 */
public final class LatencyProbe {
    private static final Duration POLL_TIMEOUT = Duration.ofSeconds(60);

    private LatencyProbe() {
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int warmUp = Integer.parseInt(arguments[2]);
        int measured = Integer.parseInt(arguments[3]);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(arguments[0]);
             KafkaProducer<byte[], byte[]> producer = producer(arguments[0], arguments[4])) {
            List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0));
            consumer.assign(partitions);
            consumer.seekToEnd(partitions);
            consumer.position(partitions.get(0));
            byte[] payload = new byte[Integer.parseInt(arguments[5])];
            Random random = new Random(0);
            roundTrips(consumer, producer, topic, payload, random, warmUp);
            print(roundTrips(consumer, producer, topic, payload, random, measured));
        }
    }

    private static long[] roundTrips(KafkaConsumer<byte[], byte[]> consumer, KafkaProducer<byte[], byte[]> producer,
                                     String topic, byte[] payload, Random random, int count) throws Exception {
        long[] nanos = new long[count];
        for (int i = 0; i < count; i++) {
            random.nextBytes(payload);
            long began = System.nanoTime();
            producer.send(new ProducerRecord<>(topic, payload)).get();
            ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL_TIMEOUT);
            nanos[i] = System.nanoTime() - began;
            check(records, payload);
        }
        return nanos;
    }

    private static void check(ConsumerRecords<byte[], byte[]> records, byte[] sent) {
        if (records.count() != 1)
            throw new IllegalStateException("expected 1 record, got " + records.count());
        ConsumerRecord<byte[], byte[]> record = records.iterator().next();
        if (!Arrays.equals(record.value(), sent))
            throw new IllegalStateException("the record at offset " + record.offset() + " is not the one sent");
    }

    private static void print(long[] nanos) {
        Arrays.sort(nanos);
        System.out.printf("count=%d mean_us=%.1f p50_us=%.1f p99_us=%.1f p999_us=%.1f max_us=%.1f%n",
            nanos.length, Arrays.stream(nanos).average().orElse(Double.NaN) / 1e3, percentile(nanos, 0.5),
            percentile(nanos, 0.99), percentile(nanos, 0.999), nanos[nanos.length - 1] / 1e3);
    }

    private static double percentile(long[] sorted, double fraction) {
        int index = (int) Math.ceil(fraction * sorted.length) - 1;
        return sorted[Math.max(0, index)] / 1e3;
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String servers) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("enable.auto.commit", "false");
        settings.put("fetch.max.wait.ms", "0");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static KafkaProducer<byte[], byte[]> producer(String servers, String acks) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("linger.ms", "0");
        settings.put("acks", acks);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }
}
