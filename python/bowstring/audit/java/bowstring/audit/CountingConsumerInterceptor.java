package bowstring.audit;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Counts the records that polls return, by topic and window, for {@code bowstring audit}.
 *
 * <p>Settings of the consumer: {@code interceptor.classes} with this class, and {@code audit.tier}; see
 * docs/how-to/audit.md.
 */
public final class CountingConsumerInterceptor implements ConsumerInterceptor<Object, Object> {
    private CountReporter reporter;

    @Override
    public void configure(Map<String, ?> configs) {
        reporter = new CountReporter(configs, "consumer");
    }

    @Override
    public ConsumerRecords<Object, Object> onConsume(ConsumerRecords<Object, Object> records) {
        for (ConsumerRecord<Object, Object> each : records) {
            reporter.counts.add(each.topic(), each.timestamp(), 1);
        }
        return records;
    }

    @Override
    public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {}

    @Override
    public void close() {
        if (reporter != null) {
            reporter.close();
        }
    }
}
