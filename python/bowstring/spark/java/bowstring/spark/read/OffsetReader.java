package bowstring.spark.read;

import bowstring.spark.DriverFailure;
import bowstring.spark.wire.ClusterClient;
import bowstring.spark.wire.Metadata;
import bowstring.spark.wire.TopicPartition;
import java.io.IOException;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The driver's view of the cluster: partitions and their offsets. Used by one thread at a time. */
final class OffsetReader {
  private static final Logger LOG = LoggerFactory.getLogger(OffsetReader.class);

  private final SourceOptions options;
  private final ClusterClient cluster;
  private Metadata metadata;

  /** Ids of topics at the last request for their ends, by name; a topic that was created again has another id. */
  private final Map<String, UUID> ids = new HashMap<>();

  OffsetReader(SourceOptions options) {
    this.options = options;
    this.cluster = new ClusterClient(options.client());
  }

  /**
   * Returns the partitions that the query reads, from fresh metadata.
   *
   * @param mustExist whether a missing subscribed topic is an error; otherwise it has no partitions
   */
  Set<TopicPartition> partitions(boolean mustExist) {
    try {
      Set<TopicPartition> found = find();
      if (mustExist) {
        checkExistence(options.subscription(), found);
      }
      return found;
    } catch (IOException failed) {
      throw DriverFailure.of(failed);
    }
  }

  private Set<TopicPartition> find() throws IOException {
    Subscription subscription = options.subscription();
    metadata = cluster.metadata(subscription.topicsAsked());
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

  /** Returns the partitions that the query reads; asks again if some known ones are gone. */
  Set<TopicPartition> existing(Set<TopicPartition> known) {
    try {
      for (int attempt = 1; ; attempt++) {
        Set<TopicPartition> found = find();
        if (found.containsAll(known) || attempt >= options.fetchOffsetRetries()) {
          return found;
        }
        LOG.warn("Some of the partitions {} no longer exist; asking the brokers again", known);
        ClusterClient.pause(options.fetchOffsetRetryIntervalMs());
      }
    } catch (IOException failed) {
      throw DriverFailure.of(failed);
    }
  }

  /** Resolves a limit of the options to an offset for each partition. */
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
      throw DriverFailure.of(failed);
    }
  }

  /** The earliest or latest offset, or the first at a time, of each partition. */
  Map<TopicPartition, Long> offsets(Collection<TopicPartition> partitions, long timestamp) {
    Map<TopicPartition, Long> timestamps = new TreeMap<>();
    partitions.forEach(partition -> timestamps.put(partition, timestamp));
    return ask(timestamps);
  }

  /**
   * Returns the end of each existing partition. Asks again if it is below a known offset, or if a partition is gone: a
   * broker that has just become the leader may for a moment not have the whole log (KAFKA-7703).
   *
   * <p>A topic that was created again since the last call is missing in this call and new in the next, as if it had
   * been looked up in between: its offsets have no relation to what was read before.
   */
  Map<TopicPartition, Long> latest(Map<TopicPartition, Long> known) {
    try {
      for (int attempt = 1; ; attempt++) {
        Map<TopicPartition, Long> latest = cluster.listOffsetsOfExisting(find(), ClusterClient.LATEST);
        Set<String> anew = madeAnew();
        Map<TopicPartition, Long> behind = new TreeMap<>();
        known.forEach((partition, offset) -> {
          if (latest.getOrDefault(partition, -1L) < offset && !anew.contains(partition.topic())) {
            behind.put(partition, latest.get(partition));
          }
        });
        if (behind.isEmpty() || attempt >= options.fetchOffsetRetries()) {
          metadata.topics().forEach((name, topic) -> ids.put(name, topic.id()));
          latest.keySet().removeIf(partition -> anew.contains(partition.topic()) && known.containsKey(partition));
          return latest;
        }
        LOG.warn("Partitions no longer exist (null) or end below offsets seen before: {}; asking the brokers again", behind);
        ClusterClient.pause(options.fetchOffsetRetryIntervalMs());
      }
    } catch (IOException failed) {
      throw DriverFailure.of(failed);
    }
  }

  private Set<String> madeAnew() {
    Set<String> anew = new TreeSet<>();
    metadata.topics().forEach((name, topic) -> {
      if (!ids.getOrDefault(name, topic.id()).equals(topic.id())) {
        anew.add(name);
      }
    });
    return anew;
  }

  /** Returns a task for each range, with the latest metadata. */
  RecordPartition task(OffsetRange range) {
    Metadata.Topic topic = metadata == null ? null : metadata.topics().get(range.partition().topic());
    return new RecordPartition(range, topic == null ? null : metadata.leader(range.partition()),
        topic == null ? new java.util.UUID(0, 0) : topic.id());
  }

  /** Whether {@link #task} has metadata. */
  boolean hasLooked() {
    return metadata != null;
  }

  /** The client, for other requests. */
  ClusterClient cluster() {
    return cluster;
  }
}
