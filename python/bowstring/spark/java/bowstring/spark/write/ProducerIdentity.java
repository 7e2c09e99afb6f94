package bowstring.spark.write;

import bowstring.spark.wire.ApiKey;
import bowstring.spark.wire.ClusterClient;
import bowstring.spark.wire.ErrorCode;
import bowstring.spark.wire.RequestWriter;
import bowstring.spark.wire.ResponseReader;
import bowstring.spark.wire.TopicPartition;
import bowstring.spark.wire.WireException;
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
    cluster.retrying("Asking for a producer id", () -> {
      cluster.askAny(connection -> {
        RequestWriter request = connection.request(ApiKey.INIT_PRODUCER_ID);
        request.string(null).int32(NO_TIMEOUT_MS);
        if (request.version() >= 3) {
          request.int64(-1).int16(-1);
        }
        ResponseReader response = connection.call(request.tags());
        response.int32(); // throttle_time_ms
        short code = response.int16();
        if (code != 0) {
          throw new WireException.BrokerError(ErrorCode.of(code), code, "Asking for a producer id");
        }
        id = response.int64();
        epoch = response.int16();
        return null;
      });
      return null;
    });
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
