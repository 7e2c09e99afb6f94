package bowstring.spark.write;

import bowstring.spark.wire.TopicPartition;
import java.util.ArrayDeque;
import java.util.Deque;

/** A partition's unacknowledged batches, in order; those in flight come first. */
final class PartitionQueue {
  final TopicPartition partition;
  final Deque<RecordBatch> batches = new ArrayDeque<>();
  int inFlight;

  /** After a failure nothing is sent until all batches in flight have returned, to keep the order. */
  boolean retrying;

  long retryAtNanos;
  int attempts;

  PartitionQueue(TopicPartition partition) {
    this.partition = partition;
  }

  /** The next batch to send, or null if there is none or it must wait. */
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

  /** Records that a batch was sent. */
  void sent(RecordBatch batch) {
    batch.inFlight = true;
    inFlight++;
    retrying = false;
  }

  /** Records that a batch in flight was answered, or never will be. */
  void returned(RecordBatch batch) {
    batch.inFlight = false;
    inFlight--;
  }

  /** Schedules its batches again, not before {@code atNanos}. */
  void retry(long atNanos) {
    retrying = true;
    retryAtNanos = atNanos;
  }
}
