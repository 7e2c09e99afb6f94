import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Measures transactions with Kafka's own clients.
 *
 * "transactions SERVERS TOPIC PARTITIONS WARM_UP COUNT": one producer commits COUNT transactions of a record to each
 * partition; prints their latency as LatencyProbe does, and the seconds of all.
 *
 * "copy SERVERS FROM TO RECORDS INTERVAL_MS TRANSACTIONAL": copies records from one topic to another and commits the
 * offsets every INTERVAL_MS, in transactions or without; prints the seconds of the copy.
 */
public final class ExactlyOnceTool {
    private static final Duration POLL_TIMEOUT = Duration.ofSeconds(60);
    private static final int VALUE_BYTES = 100;

    private ExactlyOnceTool() {
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("transactions"))
            transactions(arguments);
        else
            copy(arguments);
    }

    private static void transactions(String[] arguments) throws Exception {
        String topic = arguments[2];
        int partitions = Integer.parseInt(arguments[3]);
        int count = Integer.parseInt(arguments[5]);
        try (KafkaProducer<byte[], byte[]> producer = producer(arguments[1], topic)) {
            producer.initTransactions();
            commits(producer, topic, partitions, Integer.parseInt(arguments[4]));
            long began = System.nanoTime();
            long[] nanos = commits(producer, topic, partitions, count);
            double seconds = (System.nanoTime() - began) / 1e9;
            Arrays.sort(nanos);
            System.out.printf("count=%d seconds=%.6f p50_us=%.1f p99_us=%.1f%n", count, seconds,
                nanos[count / 2] / 1e3, nanos[(int) (count * 0.99)] / 1e3);
        }
    }

    private static long[] commits(KafkaProducer<byte[], byte[]> producer, String topic, int partitions, int count) {
        long[] nanos = new long[count];
        byte[] value = new byte[VALUE_BYTES];
        for (int i = 0; i < count; i++) {
            long began = System.nanoTime();
            producer.beginTransaction();
            for (int partition = 0; partition < partitions; partition++)
                producer.send(new ProducerRecord<>(topic, partition, null, value));
            producer.commitTransaction();
            nanos[i] = System.nanoTime() - began;
        }
        return nanos;
    }

    private static void copy(String[] arguments) {
        String to = arguments[3];
        int records = Integer.parseInt(arguments[4]);
        long intervalNanos = Long.parseLong(arguments[5]) * 1_000_000;
        boolean transactional = Boolean.parseBoolean(arguments[6]);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(arguments[1], "copy-" + to);
             KafkaProducer<byte[], byte[]> producer = producer(arguments[1], transactional ? "copy-" + to : null)) {
            consumer.subscribe(List.of(arguments[2]));
            if (transactional)
                producer.initTransactions();
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            ConsumerRecords<byte[], byte[]> first = consumer.poll(POLL_TIMEOUT);
            long began = System.nanoTime();
            long committed = began;
            int copied = 0;
            if (transactional)
                producer.beginTransaction();
            for (ConsumerRecords<byte[], byte[]> polled = first; ; polled = consumer.poll(POLL_TIMEOUT)) {
                if (polled.isEmpty())
                    throw new IllegalStateException("only " + copied + " of " + records + " records came");
                for (ConsumerRecord<byte[], byte[]> record : polled) {
                    producer.send(new ProducerRecord<>(to, record.partition(), record.key(), record.value()));
                    offsets.put(new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
                }
                copied += polled.count();
                boolean done = copied >= records;
                if (done || System.nanoTime() - committed >= intervalNanos) {
                    commit(consumer, producer, offsets, transactional);
                    offsets.clear();
                    committed = System.nanoTime();
                    if (done)
                        break;
                    if (transactional)
                        producer.beginTransaction();
                }
            }
            System.out.printf("count=%d seconds=%.6f%n", copied, (System.nanoTime() - began) / 1e9);
        }
    }

    private static void commit(KafkaConsumer<byte[], byte[]> consumer, KafkaProducer<byte[], byte[]> producer,
                               Map<TopicPartition, OffsetAndMetadata> offsets, boolean transactional) {
        if (transactional) {
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            producer.commitTransaction();
        } else {
            producer.flush();
            consumer.commitSync(offsets);
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(String servers, String transactionalId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        if (transactionalId != null)
            settings.put("transactional.id", transactionalId);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String servers, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
