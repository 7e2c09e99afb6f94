package bowstring.spark.wire;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends requests to the right broker: metadata, offsets, the leader of a partition.
 *
 * <p>Retriable errors are retried with growing pauses until kafka.default.api.timeout.ms is over. It owns no
 * connections (they belong to the pool), so there is nothing to close. Not for several threads at once.
 */
public final class ClusterClient {
  /** Timestamps of ListOffsets with a special meaning. */
  public static final long EARLIEST = -2;

  public static final long LATEST = -1;

  private static final Logger LOG = LoggerFactory.getLogger(ClusterClient.class);

  private final ClientOptions options;
  private Metadata known;

  public ClusterClient(ClientOptions options) {
    this.options = options;
  }

  /** A request to a broker. */
  @FunctionalInterface
  public interface Call<T> {
    T on(Connection connection) throws IOException;
  }

  /** An attempt of {@link #retrying}. */
  @FunctionalInterface
  public interface Attempt<T> {
    T make() throws IOException;
  }

  /**
   * Repeats an attempt while it fails with a retriable error and time is left.
   *
   * @param doing for the message of a timeout: "Reading the offsets of …"
   */
  public <T> T retrying(String doing, Attempt<T> attempt) throws IOException {
    return retrying(doing, "kafka.default.api.timeout.ms", options.apiTimeoutMs(), attempt);
  }

  private <T> T retrying(String doing, String timeoutOption, int timeoutMs, Attempt<T> attempt) throws IOException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    long pauseMs = options.retryBackoffMs();
    boolean isFirst = true;
    while (true) {
      try {
        return attempt.make();
      } catch (WireException failed) {
        if (!failed.isRetriable()) {
          throw failed;
        }
        if (System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pauseMs) >= deadline) {
          throw new WireException.TimedOut(doing + " did not succeed within " + timeoutOption + " ("
              + timeoutMs + " ms): " + failed.getMessage(), failed);
        }
        if (isFirst && failed instanceof WireException.BrokerUnreachable) {
          LOG.warn("{}. Retrying for up to {} ms", failed.getMessage(), timeoutMs);
        } else {
          LOG.debug("{} failed; retrying in {} ms", doing, pauseMs, failed);
        }
        isFirst = false;
        pause(pauseMs);
        pauseMs = Math.min(Math.max(1, pauseMs * 2), options.retryBackoffMaxMs());
      }
    }
  }

  /** Waits; throws early if the thread is interrupted or its Spark task killed. */
  public static void pause(long ms) throws IOException {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new java.io.InterruptedIOException("interrupted while waiting for a retry");
    }
    TaskContext task = TaskContext.get();
    if (task != null) {
      task.killTaskIfInterrupted();
    }
  }

  /** Asks one broker. */
  public <T> T ask(HostPort broker, Call<T> call) throws IOException {
    try (ConnectionPool.Lease lease = ConnectionPool.SHARED.borrow(broker, options)) {
      return call.on(lease.connection());
    }
  }

  /** Asks any broker: those known, then the bootstrap servers. */
  public <T> T askAny(Call<T> call) throws IOException {
    Set<HostPort> candidates = new LinkedHashSet<>(options.bootstrapServers());
    if (known != null) {
      candidates.addAll(known.brokers().values());
    }
    List<String> failures = new ArrayList<>();
    WireException last = null;
    for (HostPort broker : candidates) {
      try {
        return ask(broker, call);
      } catch (WireException.BrokerUnreachable | WireException.TimedOut unreachable) {
        failures.add(unreachable.getMessage());
        last = unreachable;
      }
    }
    throw new WireException.BrokerUnreachable(String.join("; ", failures), last);
  }

  /**
   * Checks that some broker answers.
   *
   * @param timeoutOption for the message of a timeout, with its value in milliseconds
   */
  public void reach(String timeoutOption, int timeoutMs) throws IOException {
    retrying("Connecting", timeoutOption, timeoutMs, () -> askAny(connection -> connection));
  }

  /** Fresh metadata of these topics (null: all topics). Topics that do not exist are missing. */
  public Metadata metadata(Collection<String> topics) throws IOException {
    known = retrying("Reading metadata of " + (topics == null ? "all topics" : topics), () -> {
      Metadata metadata = askAny(connection -> Metadata.ask(connection, topics));
      for (String topic : topics == null ? Set.<String>of() : topics) {
        ErrorCode error = metadata.error(topic);
        if (error != ErrorCode.NONE && error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) {
          throw new WireException.BrokerError(error, error.code, "Reading metadata of topic " + topic);
        }
      }
      return metadata;
    });
    return known;
  }

  /** Fresh metadata of a topic to write to: a broker that creates topics on first use creates it. */
  public Metadata metadataForWriting(String topic) throws IOException {
    known = retrying("Reading metadata of " + topic, () -> {
      Metadata metadata = askAny(connection -> Metadata.ask(connection, List.of(topic), true));
      ErrorCode error = metadata.error(topic);
      if (error != ErrorCode.NONE && !error.retriable) {
        throw new WireException.BrokerError(error, error.code, "Reading metadata of topic " + topic);
      }
      return metadata;
    });
    return known;
  }

  /** Fresh metadata of these topics from one attempt, for callers with their own timeout. */
  public Metadata metadataOnce(Collection<String> topics) throws IOException {
    known = askAny(connection -> Metadata.ask(connection, topics));
    return known;
  }

  /** Returns the address of the partition's leader, cached or requested; waits while there is none. */
  public HostPort leader(TopicPartition partition) throws IOException {
    HostPort leader = known == null ? null : known.leader(partition);
    if (leader != null) {
      return leader;
    }
    return retrying("Finding the leader of " + partition, () -> {
      HostPort found = metadata(List.of(partition.topic())).leader(partition);
      if (found == null) {
        boolean exists = known.topics().containsKey(partition.topic());
        ErrorCode error = exists ? ErrorCode.LEADER_NOT_AVAILABLE : ErrorCode.UNKNOWN_TOPIC_OR_PARTITION;
        throw new WireException.BrokerError(error, error.code, "Finding the leader of " + partition);
      }
      return found;
    });
  }

  /** Drops the cached leaders, after a leader reported that it no longer leads. */
  public void forgetLeaders() {
    known = null;
  }

  /** The topic's id; zero if the brokers have none. */
  public java.util.UUID topicId(String topic) throws IOException {
    Metadata.Topic found = known == null ? null : known.topics().get(topic);
    if (found == null) {
      found = metadata(List.of(topic)).topics().get(topic);
    }
    if (found == null) {
      ErrorCode error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION;
      throw new WireException.BrokerError(error, error.code, "Reading metadata of topic " + topic);
    }
    return found.id();
  }

  /**
   * Offsets by timestamp: the first record at or after it, or {@link #EARLIEST} / {@link #LATEST}.
   *
   * @param timestamps milliseconds since 1970 for each partition
   * @return an offset for each partition; -1 where no record is that late
   */
  public Map<TopicPartition, Long> listOffsets(Map<TopicPartition, Long> timestamps) throws IOException {
    return listOffsets(timestamps, true);
  }

  private Map<TopicPartition, Long> listOffsets(Map<TopicPartition, Long> timestamps, boolean mustExist)
      throws IOException {
    Map<TopicPartition, Long> offsets = new TreeMap<>();
    if (timestamps.isEmpty()) {
      return offsets;
    }
    Set<TopicPartition> missing = new TreeSet<>(timestamps.keySet());
    return retrying("Reading offsets of " + timestamps.keySet(), () -> {
      Map<HostPort, List<TopicPartition>> byLeader = new HashMap<>();
      learnLeaders(missing);
      if (!mustExist) {
        missing.removeIf(partition -> !known.exists(partition));
      }
      for (TopicPartition partition : missing) {
        byLeader.computeIfAbsent(leader(partition), l -> new ArrayList<>()).add(partition);
      }
      try {
        for (Map.Entry<HostPort, List<TopicPartition>> asked : byLeader.entrySet()) {
          offsets.putAll(ask(asked.getKey(), c -> ListOffsets.ask(c, asked.getValue(), timestamps, options)));
          missing.removeAll(offsets.keySet());
        }
      } catch (WireException failed) {
        forgetLeaders();
        throw failed;
      }
      return offsets;
    });
  }

  private void learnLeaders(Set<TopicPartition> partitions) throws IOException {
    Set<String> topics = new TreeSet<>();
    boolean unknown = false;
    for (TopicPartition partition : partitions) {
      topics.add(partition.topic());
      unknown |= known == null || known.leader(partition) == null;
    }
    if (unknown) {
      metadata(topics);
    }
  }

  /** {@link #listOffsets} with one timestamp for all. */
  public Map<TopicPartition, Long> listOffsets(Collection<TopicPartition> partitions, long timestamp)
      throws IOException {
    return listOffsets(withTimestamp(partitions, timestamp), true);
  }

  /** The same without partitions that are gone, instead of waiting for them. */
  public Map<TopicPartition, Long> listOffsetsOfExisting(Collection<TopicPartition> partitions, long timestamp)
      throws IOException {
    return listOffsets(withTimestamp(partitions, timestamp), false);
  }

  private static Map<TopicPartition, Long> withTimestamp(Collection<TopicPartition> partitions, long timestamp) {
    Map<TopicPartition, Long> timestamps = new TreeMap<>();
    partitions.forEach(partition -> timestamps.put(partition, timestamp));
    return timestamps;
  }
}
