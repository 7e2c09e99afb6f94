package bowstring.audit;

import java.util.Map;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Counts acknowledged records by topic and window, for {@code bowstring audit}.
 *
 * <p>Settings of the producer: {@code interceptor.classes} with this class, and {@code audit.tier}; see
 * docs/how-to/audit.md.
 */
public final class CountingProducerInterceptor implements ProducerInterceptor<Object, Object> {
    private CountReporter reporter;

    @Override
    public void configure(Map<String, ?> configs) {
        reporter = new CountReporter(configs, "producer");
    }

    @Override
    public ProducerRecord<Object, Object> onSend(ProducerRecord<Object, Object> record) {
        return record;
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception error) {
        if (error == null && metadata != null && metadata.hasTimestamp()) {
            reporter.counts.add(metadata.topic(), metadata.timestamp(), 1);
        }
    }

    @Override
    public void close() {
        if (reporter != null) {
            reporter.close();
        }
    }
}
