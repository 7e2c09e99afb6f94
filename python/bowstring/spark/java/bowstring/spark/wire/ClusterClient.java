package bowstring.spark.wire;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
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
 * Answers questions that go to whichever broker knows: metadata, offsets, the leader of a partition.
 *
 * <p>Retriable errors are tried again with growing pauses until kafka.default.api.timeout.ms is over. Holds no
 * connection of its own (they are the pool's), so there is nothing to close. Not for use by several threads at once.
 */
public final class ClusterClient {
  /** Timestamps of ListOffsets with a meaning of their own. */
  public static final long EARLIEST = -2;

  public static final long LATEST = -1;

  private static final Logger LOG = LoggerFactory.getLogger(ClusterClient.class);

  private final ClientOptions options;
  private Metadata known;

  public ClusterClient(ClientOptions options) {
    this.options = options;
  }

  /** Something asked of a broker. */
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
   * Makes an attempt again while it fails with a retriable error and there is time.
   *
   * @param doing for the message of a timeout: "Reading the offsets of …"
   */
  public <T> T retrying(String doing, Attempt<T> attempt) throws IOException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(options.apiTimeoutMs());
    long pauseMs = options.retryBackoffMs();
    while (true) {
      try {
        return attempt.make();
      } catch (WireException failed) {
        if (!failed.isRetriable()) {
          throw failed;
        }
        if (System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(pauseMs) >= deadline) {
          throw new WireException.TimedOut(doing + " did not succeed within kafka.default.api.timeout.ms ("
              + options.apiTimeoutMs() + " ms): " + failed.getMessage(), failed);
        }
        LOG.debug("{}: trying again in {} ms", doing, pauseMs, failed);
        pause(pauseMs);
        pauseMs = Math.min(Math.max(1, pauseMs * 2), options.retryBackoffMaxMs());
      }
    }
  }

  /** Waits, and ends early with an exception if the thread is interrupted or its Spark task killed. */
  public static void pause(long ms) throws IOException {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new java.io.InterruptedIOException("interrupted while waiting to try again");
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

  /** A fresh view of these topics (null: all topics). Topics that do not exist are missing in it. */
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

  /** A fresh view of a topic that is to be written to: a broker that makes topics on first use makes it. */
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

  /** A fresh view of these topics from one round of asking; for callers that keep their own time. */
  public Metadata metadataOnce(Collection<String> topics) throws IOException {
    known = askAny(connection -> Metadata.ask(connection, topics));
    return known;
  }

  /** Address of the partition's leader, from what is known or asked anew; waits while there is none. */
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

  /** Forgets who leads, after a leader said it does no longer. */
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
    Map<TopicPartition, Long> offsets = new TreeMap<>();
    if (timestamps.isEmpty()) {
      return offsets;
    }
    Set<TopicPartition> missing = new TreeSet<>(timestamps.keySet());
    return retrying("Reading offsets of " + timestamps.keySet(), () -> {
      Map<HostPort, List<TopicPartition>> byLeader = new HashMap<>();
      learnLeaders(missing);
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
    Map<TopicPartition, Long> timestamps = new TreeMap<>();
    for (TopicPartition partition : partitions) {
      timestamps.put(partition, timestamp);
    }
    return partitions.isEmpty() ? Collections.emptyMap() : listOffsets(timestamps);
  }
}
