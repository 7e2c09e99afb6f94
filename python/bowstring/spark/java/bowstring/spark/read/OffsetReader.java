package bowstring.spark.read;

import bowstring.spark.wire.ClusterClient;
import bowstring.spark.wire.Metadata;
import bowstring.spark.wire.TopicPartition;
import bowstring.spark.wire.WireException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The driver's view of the cluster: which partitions there are, and their offsets. Used by one thread at a time. */
final class OffsetReader {
  private static final Logger LOG = LoggerFactory.getLogger(OffsetReader.class);

  private final SourceOptions options;
  private final ClusterClient cluster;
  private Metadata metadata;

  OffsetReader(SourceOptions options) {
    this.options = options;
    this.cluster = new ClusterClient(options.client());
  }

  /**
   * Partitions that the query reads, by a fresh look.
   *
   * @param mustExist whether a subscribed topic that is not there is an error; else it has no partitions
   */
  Set<TopicPartition> partitions(boolean mustExist) {
    Subscription subscription = options.subscription();
    try {
      metadata = cluster.metadata(subscription.topicsAsked());
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
    Set<TopicPartition> result = new TreeSet<>();
    for (Metadata.Topic topic : metadata.topics().values()) {
      boolean wanted = subscription.pattern() == null
          || !topic.internal() && subscription.pattern().matcher(topic.name()).matches();
      for (int partition : wanted ? topic.partitions().keySet() : Set.<Integer>of()) {
        result.add(new TopicPartition(topic.name(), partition));
      }
    }
    if (subscription.partitions() != null) {
      result.retainAll(subscription.partitions());
    }
    if (mustExist) {
      checkExistence(subscription, result);
    }
    return result;
  }

  private void checkExistence(Subscription subscription, Set<TopicPartition> found) {
    Set<String> missing = subscription.topicsAsked() == null ? new TreeSet<>() : subscription.topicsAsked();
    missing.removeAll(metadata.topics().keySet());
    if (!missing.isEmpty()) {
      throw new IllegalArgumentException("Topics " + missing + " do not exist at "
          + options.client().bootstrapServers() + ": create them, or check option 'subscribe'");
    }
    if (subscription.partitions() != null && found.size() < subscription.partitions().size()) {
      Set<TopicPartition> absent = new TreeSet<>(subscription.partitions());
      absent.removeAll(found);
      throw new IllegalArgumentException("Partitions " + absent + " do not exist: check option 'assign'");
    }
  }

  /** Turns what options say into an offset for each partition. */
  Map<TopicPartition, Long> resolve(OffsetLimit limit, Set<TopicPartition> partitions, boolean isStart) {
    if (limit instanceof OffsetLimit.Earliest) {
      return offsets(partitions, ClusterClient.EARLIEST);
    }
    if (limit instanceof OffsetLimit.Latest) {
      return offsets(partitions, ClusterClient.LATEST);
    }
    if (limit instanceof OffsetLimit.Offsets given) {
      mustBeAll(given.offsets().keySet(), partitions, "If startingOffsets contains specific offsets, you must specify "
          + "all TopicPartitions. Use -1 for latest, -2 for earliest.");
      return resolveSpecial(new TreeMap<>(given.offsets()));
    }
    if (limit instanceof OffsetLimit.Timestamps given) {
      mustBeAll(given.timestamps().keySet(), partitions, "If starting/endingOffsetsByTimestamp contains specific "
          + "offsets, you must specify all topics.");
      return byTimestamp(given.timestamps(), isStart, given.latestIfNone());
    }
    OffsetLimit.Timestamp one = (OffsetLimit.Timestamp) limit;
    Map<TopicPartition, Long> timestamps = new TreeMap<>();
    partitions.forEach(partition -> timestamps.put(partition, one.timestamp()));
    return byTimestamp(timestamps, isStart, one.latestIfNone());
  }

  private static void mustBeAll(Set<TopicPartition> specified, Set<TopicPartition> assigned, String message) {
    if (!specified.equals(assigned)) {
      throw new IllegalArgumentException(
          message + " Specified: " + new TreeSet<>(specified) + " Assigned: " + assigned);
    }
  }

  private Map<TopicPartition, Long> resolveSpecial(Map<TopicPartition, Long> offsets) {
    for (long special : new long[] {OffsetLimit.EARLIEST, OffsetLimit.LATEST}) {
      Set<TopicPartition> affected = new TreeSet<>();
      offsets.forEach((partition, offset) -> {
        if (offset == special) {
          affected.add(partition);
        }
      });
      offsets.putAll(offsets(affected, special));
    }
    return offsets;
  }

  private Map<TopicPartition, Long> byTimestamp(Map<TopicPartition, Long> timestamps, boolean isStart,
      boolean latestIfNone) {
    Map<TopicPartition, Long> offsets = ask(timestamps);
    offsets.forEach((partition, offset) -> {
      if (offset < 0 && isStart && !latestIfNone) {
        throw new IllegalArgumentException("No offset matched from request of topic-partition " + partition
            + " and timestamp " + timestamps.get(partition)
            + ": with option startingOffsetsByTimestampStrategy=latest the query would start at the partition's end");
      }
    });
    return resolveSpecial(offsets);
  }

  private Map<TopicPartition, Long> ask(Map<TopicPartition, Long> timestamps) {
    try {
      return cluster.listOffsets(timestamps);
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  /** The earliest or latest offset, or the first at a time, of each partition. */
  Map<TopicPartition, Long> offsets(Collection<TopicPartition> partitions, long timestamp) {
    Map<TopicPartition, Long> timestamps = new TreeMap<>();
    partitions.forEach(partition -> timestamps.put(partition, timestamp));
    return ask(timestamps);
  }

  /**
   * The end of each partition that exists now, never before an offset known to have existed: a broker that has just
   * become the leader may for a moment not know all of the log (KAFKA-7703).
   */
  Map<TopicPartition, Long> latest(Map<TopicPartition, Long> known) {
    for (int attempt = 1; ; attempt++) {
      Map<TopicPartition, Long> latest = latestOfExisting();
      Map<TopicPartition, Long> behind = new TreeMap<>();
      latest.forEach((partition, offset) -> {
        if (known.getOrDefault(partition, 0L) > offset) {
          behind.put(partition, offset);
        }
      });
      if (behind.isEmpty() || attempt >= options.fetchOffsetRetries()) {
        return latest;
      }
      LOG.warn("The ends of some partitions are before offsets seen earlier: {}; asking again", behind);
      try {
        ClusterClient.pause(options.fetchOffsetRetryIntervalMs());
      } catch (IOException interrupted) {
        throw new UncheckedIOException(interrupted);
      }
    }
  }

  private Map<TopicPartition, Long> latestOfExisting() {
    try {
      return offsets(partitions(false), ClusterClient.LATEST);
    } catch (UncheckedIOException failed) {
      // a topic may have been deleted between the two questions: then a second look does not show it any more
      if (!(failed.getCause() instanceof WireException)) {
        throw failed;
      }
      LOG.info("Reading the ends of partitions failed, asking again: {}", failed.getCause().getMessage());
      return offsets(partitions(false), ClusterClient.LATEST);
    }
  }

  /** A task for each range, with what the last look at the cluster knows. */
  RecordPartition task(OffsetRange range) {
    Metadata.Topic topic = metadata == null ? null : metadata.topics().get(range.partition().topic());
    return new RecordPartition(range, topic == null ? null : metadata.leader(range.partition()),
        topic == null ? new java.util.UUID(0, 0) : topic.id());
  }

  /** Whether {@link #task} has anything to go by. */
  boolean hasLooked() {
    return metadata != null;
  }

  /** The client, for questions of one's own. */
  ClusterClient cluster() {
    return cluster;
  }
}
