import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Lets the consumers of a share group read a topic and acknowledge record by record; the next poll sends that. Prints
 * the records and the seconds after the first WARM_UP records.
 *
 * Arguments: bootstrap servers, topic, group, consumers, warm-up records, measured records.
 */
public final class ShareTool {
    private static final Duration POLL_TIMEOUT = Duration.ofMillis(500);
    private static final long LIMIT_NANOS = 300_000_000_000L;

    private final AtomicLong taken = new AtomicLong();
    private final AtomicLong began = new AtomicLong();
    private final AtomicLong ended = new AtomicLong();
    private final AtomicReference<Exception> failure = new AtomicReference<>();
    private final long warmUp;
    private final long all;

    private ShareTool(long warmUp, long measured) {
        this.warmUp = warmUp;
        this.all = warmUp + measured;
    }

    public static void main(String[] arguments) throws Exception {
        int consumers = Integer.parseInt(arguments[3]);
        long measured = Long.parseLong(arguments[5]);
        readFromTheStart(arguments[0], arguments[2]);
        ShareTool tool = new ShareTool(Long.parseLong(arguments[4]), measured);
        CountDownLatch done = new CountDownLatch(consumers);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < consumers; i++) {
            Thread thread = new Thread(() -> {
                try {
                    tool.consume(arguments[0], arguments[1], arguments[2]);
                } catch (Exception error) {
                    tool.failure.set(error);
                } finally {
                    done.countDown();
                }
            });
            thread.start();
            threads.add(thread);
        }
        done.await();
        if (tool.failure.get() != null)
            throw tool.failure.get();
        if (tool.ended.get() == 0)
            throw new IllegalStateException("only " + tool.taken.get() + " of " + tool.all + " records came");
        System.out.printf("count=%d seconds=%.6f%n", measured, (tool.ended.get() - tool.began.get()) / 1e9);
    }

    private static void readFromTheStart(String servers, String group) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        AlterConfigOp earliest =
            new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
        try (Admin admin = Admin.create(settings)) {
            admin.incrementalAlterConfigs(Map.of(resource, List.of(earliest))).all().get();
        }
    }

    private void consume(String servers, String topic, String group) {
        long deadline = System.nanoTime() + LIMIT_NANOS;
        try (KafkaShareConsumer<byte[], byte[]> consumer = consumer(servers, group)) {
            consumer.subscribe(List.of(topic));
            while (ended.get() == 0 && failure.get() == null && System.nanoTime() < deadline) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(POLL_TIMEOUT);
                for (ConsumerRecord<byte[], byte[]> record : polled) {
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                    long number = taken.incrementAndGet();
                    if (number == warmUp)
                        began.set(System.nanoTime());
                    if (number == all)
                        ended.set(System.nanoTime());
                }
            }
        }
    }

    private static KafkaShareConsumer<byte[], byte[]> consumer(String servers, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("share.acknowledgement.mode", "explicit");
        return new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
