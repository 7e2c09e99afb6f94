package bowstring.spark.write;

import bowstring.spark.wire.ClusterClient;
import bowstring.spark.wire.ErrorCode;
import bowstring.spark.wire.HostPort;
import bowstring.spark.wire.Metadata;
import bowstring.spark.wire.TopicPartition;
import bowstring.spark.wire.WireException;
import java.io.IOException;
import java.util.Collection;
import java.util.Set;
import java.util.TreeSet;

/** Who leads which partition: asked once for all topics, and again after an answer or a broker gave reason to doubt. */
final class Leaders {
  private final ClusterClient cluster;
  private Metadata known;
  private boolean doubted;

  Leaders(ClusterClient cluster) {
    this.cluster = cluster;
  }

  /** Something failed that other leaders may explain. */
  void doubt() {
    doubted = true;
  }

  /** Lets the next question go to the brokers if there was a doubt: once for many partitions. */
  void refresh() {
    if (doubted) {
      known = null;
      doubted = false;
    }
  }

  /**
   * The partition's leader.
   *
   * @param partitions those that are written to
   * @throws WireException retriable if nobody leads it now, or nobody could be asked
   */
  HostPort of(TopicPartition partition, Collection<TopicPartition> partitions) throws IOException {
    if (known == null) {
      Set<String> topics = new TreeSet<>();
      partitions.forEach(each -> topics.add(each.topic()));
      known = cluster.metadataOnce(topics);
    }
    HostPort leader = known.leader(partition);
    if (leader == null) {
      boolean exists = known.topics().containsKey(partition.topic());
      ErrorCode error = exists ? ErrorCode.LEADER_NOT_AVAILABLE : ErrorCode.UNKNOWN_TOPIC_OR_PARTITION;
      throw new WireException.BrokerError(error, error.code, "Finding the leader of " + partition);
    }
    return leader;
  }
}
