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

/** Leaders of partitions: requested once for all topics, and again when an answer or a failure puts them in doubt. */
final class Leaders {
  private final ClusterClient cluster;
  private Metadata known;
  private boolean doubted;

  Leaders(ClusterClient cluster) {
    this.cluster = cluster;
  }

  /** Marks the leaders as doubtful after a failure that a leader change may explain. */
  void doubt() {
    doubted = true;
  }

  /** Requests the leaders again if they are in doubt: once for many partitions. */
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
   * @throws WireException retriable if it has no leader now, or no broker answered
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
