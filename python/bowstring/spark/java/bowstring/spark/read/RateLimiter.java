package bowstring.spark.read;

import bowstring.spark.wire.ClusterClient;
import bowstring.spark.wire.TopicPartition;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReadMinRows;

/**
 * Computes the end of the next micro-batch: distributes maxOffsetsPerTrigger in proportion, waits for
 * minOffsetsPerTrigger.
 */
final class RateLimiter {
  private final OffsetReader offsets;
  private long lastTriggerMs;

  RateLimiter(OffsetReader offsets) {
    this.offsets = offsets;
  }

  /** Returns the end of the next batch that begins at {@code from}; {@code latest} is the present end. */
  Map<TopicPartition, Long> limit(Map<TopicPartition, Long> from, Map<TopicPartition, Long> latest, ReadLimit limit) {
    ReadLimit[] limits =
        limit instanceof CompositeReadLimit both ? both.getReadLimits() : new ReadLimit[] {limit};
    ReadMinRows least = null;
    ReadMaxRows most = null;
    for (ReadLimit each : limits) {
      if (each instanceof ReadAllAvailable) {
        return latest;
      }
      least = each instanceof ReadMinRows rows ? rows : least;
      most = each instanceof ReadMaxRows rows ? rows : most;
    }
    if (least != null && isTooLittle(least, from, latest)) {
      return from;
    }
    return most == null ? latest : share(most.maxRows(), from, latest);
  }

  private boolean isTooLittle(ReadMinRows least, Map<TopicPartition, Long> from, Map<TopicPartition, Long> latest) {
    long now = System.currentTimeMillis();
    if (now - lastTriggerMs >= least.maxTriggerDelayMs()) {
      lastTriggerMs = now;
      return false;
    }
    long available = 0;
    for (Map.Entry<TopicPartition, Long> end : latest.entrySet()) {
      available += end.getValue() - from.getOrDefault(end.getKey(), 0L);
    }
    if (available < least.minRows()) {
      return true;
    }
    lastTriggerMs = now;
    return false;
  }

  /** Each partition's share is in proportion to its records; each gets some. */
  private Map<TopicPartition, Long> share(long most, Map<TopicPartition, Long> from,
      Map<TopicPartition, Long> latest) {
    Map<TopicPartition, Long> begin = new TreeMap<>(from);
    Set<TopicPartition> added = new TreeSet<>(latest.keySet());
    added.removeAll(from.keySet());
    begin.putAll(offsets.offsets(added, ClusterClient.EARLIEST));
    double total = 0;
    for (Map.Entry<TopicPartition, Long> end : latest.entrySet()) {
      total += Math.max(0, end.getValue() - begin.getOrDefault(end.getKey(), end.getValue()));
    }
    Map<TopicPartition, Long> limited = new TreeMap<>(latest);
    if (total < 1) {
      return limited;
    }
    for (Map.Entry<TopicPartition, Long> end : limited.entrySet()) {
      long start = begin.getOrDefault(end.getKey(), end.getValue());
      long size = end.getValue() - start;
      if (size > 0) {
        double part = most * (size / total);
        long rows = (long) (part < 1 ? Math.ceil(part) : Math.floor(part));
        end.setValue(rows >= size ? end.getValue() : start + rows);
      }
    }
    return limited;
  }
}
