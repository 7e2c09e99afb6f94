package bowstring.spark.write;

import java.util.concurrent.ThreadLocalRandom;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A topic's open batches by partition, and the partition of rows without a key (KIP-480: the same until its batch is
 * full).
 */
final class TopicBatches {
  final UTF8String key;
  final RecordBatch[] open;
  int sticky;

  TopicBatches(UTF8String key, int partitions) {
    this.key = key;
    this.open = new RecordBatch[partitions];
    this.sticky = ThreadLocalRandom.current().nextInt(partitions);
  }

  /** Chooses another partition for rows without a key. */
  void moveOn() {
    if (open.length > 1) {
      int step = 1 + ThreadLocalRandom.current().nextInt(open.length - 1);
      sticky = (sticky + step) % open.length;
    }
  }
}
