package bowstring.spark.write;

import bowstring.spark.wire.ClusterClient;
import bowstring.spark.wire.OpenTransaction;
import bowstring.spark.wire.TopicPartition;
import bowstring.spark.wire.TransactionRequests;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;

/**
 * An idempotent producer (KIP-98): its id, its epoch, and the next sequence number of each partition.
 *
 * <p>It belongs to one task at a time. If all its batches were acknowledged, it is kept for the next task that writes
 * to the same topic, so that short tasks need not request an id, and brokers need not keep a producer for each of them.
 * An equal topic id proves that the cluster is the same: in another cluster, the producer id may belong to somebody
 * else.
 */
final class ProducerIdentity {
  private static final int NO_TIMEOUT_MS = Integer.MAX_VALUE;
  private static final int KEPT_OF_A_TOPIC = 64;
  private static final int KEPT_TOPICS = 1000;
  private static final UUID NO_ID = new UUID(0, 0);
  private static final Map<UUID, ArrayDeque<ProducerIdentity>> IDLE = new HashMap<>();

  private long id;
  private short epoch;
  private final Map<TopicPartition, Integer> next = new HashMap<>();

  private ProducerIdentity() {}

  /** Returns one that another task kept after writing to that topic, or a new one. */
  static ProducerIdentity take(UUID topicId, ClusterClient cluster) throws IOException {
    synchronized (IDLE) {
      ArrayDeque<ProducerIdentity> idle = IDLE.get(topicId);
      if (idle != null && !idle.isEmpty()) {
        return idle.pollFirst();
      }
    }
    ProducerIdentity made = new ProducerIdentity();
    made.ask(cluster);
    return made;
  }

  /** The producer of a transaction. */
  static ProducerIdentity of(OpenTransaction transaction) {
    ProducerIdentity made = new ProducerIdentity();
    made.id = transaction.producerId();
    made.epoch = transaction.epoch();
    return made;
  }

  /** Keeps it for another task; only if none of its batches is unanswered. */
  void giveBack(UUID topicId) {
    synchronized (IDLE) {
      if (topicId.equals(NO_ID) || !IDLE.containsKey(topicId) && IDLE.size() == KEPT_TOPICS) {
        return; // dropped: the next task requests a new one
      }
      ArrayDeque<ProducerIdentity> idle = IDLE.computeIfAbsent(topicId, each -> new ArrayDeque<>());
      if (idle.size() < KEPT_OF_A_TOPIC) {
        idle.addFirst(this);
      }
    }
  }

  private void ask(ClusterClient cluster) throws IOException {
    TransactionRequests.Producer given = cluster.retrying("Asking for a producer id", () -> cluster.askAny(
        connection -> TransactionRequests.initProducerId(connection, null, NO_TIMEOUT_MS)));
    id = given.id();
    epoch = given.epoch();
  }

  /** Gives a batch the sequence numbers after the partition's batches so far. */
  void stamp(RecordBatch batch) {
    int sequence = next.getOrDefault(batch.partition, 0);
    batch.stamp(id, epoch, sequence);
    next.put(batch.partition, after(sequence, batch.records()));
  }

  /** Gives a batch known sequence numbers: those of the batch from which it was split. */
  void stamp(RecordBatch batch, int sequence) {
    batch.stamp(id, epoch, sequence);
  }

  /** Sequence numbers wrap to 0 after the largest. */
  static int after(int sequence, int records) {
    return sequence + records & Integer.MAX_VALUE;
  }

  /** Starts again as another producer, after brokers have lost its state. Nothing may be in flight. */
  void renew(ClusterClient cluster) throws IOException {
    next.clear();
    ask(cluster);
  }
}
