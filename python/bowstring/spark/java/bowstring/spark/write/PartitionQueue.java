package bowstring.spark.write;

import bowstring.spark.wire.TopicPartition;
import java.util.ArrayDeque;
import java.util.Deque;

/** A partition's batches that are not acknowledged, in order; those in flight are in front. */
final class PartitionQueue {
  final TopicPartition partition;
  final Deque<RecordBatch> batches = new ArrayDeque<>();
  int inFlight;

  /** After a failure nothing is sent until all that is in flight came back: order is kept that way. */
  boolean retrying;

  long retryAtNanos;
  int attempts;

  PartitionQueue(TopicPartition partition) {
    this.partition = partition;
  }

  /** The batch to be sent next, or null if there is none or it has to wait. */
  RecordBatch sendable(long now) {
    if (batches.size() == inFlight || retrying && (inFlight > 0 || now - retryAtNanos < 0)) {
      return null;
    }
    if (inFlight == 0) {
      return batches.peekFirst();
    }
    for (RecordBatch batch : batches) {
      if (!batch.inFlight) {
        return batch;
      }
    }
    return null;
  }

  /** Notes that a batch was sent. */
  void sent(RecordBatch batch) {
    batch.inFlight = true;
    inFlight++;
    retrying = false;
  }

  /** Notes that a batch in flight was answered, or never will be. */
  void returned(RecordBatch batch) {
    batch.inFlight = false;
    inFlight--;
  }

  /** Notes that its batches are to be sent again, not before {@code atNanos}. */
  void retry(long atNanos) {
    retrying = true;
    retryAtNanos = atNanos;
  }
}
