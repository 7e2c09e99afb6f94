package bowstring.spark.read;

import bowstring.spark.decode.RecordDecoder;
import bowstring.spark.wire.ClientOptions;
import bowstring.spark.wire.ErrorCode;
import bowstring.spark.wire.Fetch;
import bowstring.spark.wire.HostPort;
import bowstring.spark.wire.TopicPartition;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Computes how far a query is behind: the metrics of Spark's Kafka source (minOffsetsBehindLatest,
 * maxOffsetsBehindLatest, avgOffsetsBehindLatest), and for each partition offsetsBehindLatest.topic-0 and
 * secondsBehindLatest.topic-0.
 *
 * <p>Seconds are the age of the first unread record, 0 without one. This costs a small fetch for each partition that is
 * behind; with more than {@link #MOST_AGES} such partitions only offsets are shown.
 */
final class LagMetrics {
  private static final Logger LOG = LoggerFactory.getLogger(LagMetrics.class);
  private static final int MOST_AGES = 32;
  private static final int PEEK_BYTES = 1024;

  private final ClientOptions options;
  private final OffsetReader offsets;

  LagMetrics(SourceOptions options) {
    this.options = options.client();
    this.offsets = new OffsetReader(options);
  }

  Map<String, String> of(Map<TopicPartition, Long> consumed, Map<TopicPartition, Long> latest) {
    Map<String, String> metrics = new LinkedHashMap<>();
    if (latest.isEmpty()) {
      return metrics;
    }
    Map<TopicPartition, Long> behind = new LinkedHashMap<>();
    latest.forEach((partition, end) -> behind.put(partition, end - consumed.getOrDefault(partition, end)));
    metrics.put("minOffsetsBehindLatest",
        Long.toString(behind.values().stream().mapToLong(Long::longValue).min().orElse(0)));
    metrics.put("maxOffsetsBehindLatest",
        Long.toString(behind.values().stream().mapToLong(Long::longValue).max().orElse(0)));
    metrics.put("avgOffsetsBehindLatest",
        Double.toString(behind.values().stream().mapToLong(Long::longValue).average().orElse(0)));
    int ages = 0;
    for (Map.Entry<TopicPartition, Long> lag : behind.entrySet()) {
      metrics.put("offsetsBehindLatest." + lag.getKey(), Long.toString(lag.getValue()));
      if (lag.getValue() <= 0) {
        metrics.put("secondsBehindLatest." + lag.getKey(), "0.0");
      } else if (ages++ < MOST_AGES) {
        age(lag.getKey(), consumed.get(lag.getKey())).ifPresent(ms ->
            metrics.put("secondsBehindLatest." + lag.getKey(), String.format(Locale.ROOT, "%.3f", ms / 1000.0)));
      }
    }
    return metrics;
  }

  /** Age in milliseconds of the record at an offset. A metric must not end a query: failures leave it out. */
  private OptionalLong age(TopicPartition partition, long offset) {
    try {
      HostPort leader = offsets.cluster().leader(partition);
      Fetch fetch = new Fetch(partition, offsets.cluster().topicId(partition.topic()), options.isReadCommitted());
      return offsets.cluster().ask(leader, connection -> {
        fetch.send(connection, offset, 0, 1, PEEK_BYTES, options.requestTimeoutMs());
        fetch.receive(connection);
        if (fetch.error() != ErrorCode.NONE || fetch.length() == 0) {
          return OptionalLong.empty();
        }
        OptionalLong timestamp =
            RecordDecoder.firstTimestampMs(fetch.buffer(), fetch.position(), fetch.position() + fetch.length());
        return timestamp.isEmpty() ? timestamp
            : OptionalLong.of(Math.max(0, System.currentTimeMillis() - timestamp.getAsLong()));
      });
    } catch (IOException failed) {
      LOG.debug("The age of {} at {} is not known", partition, offset, failed);
      return OptionalLong.empty();
    }
  }
}
