package bowstring.spark.read;

import bowstring.spark.wire.TopicPartition;
import java.io.Serializable;

/** Records of one partition with offsets in [start, end). */
public record OffsetRange(TopicPartition partition, long start, long end) implements Serializable {
  /** Number of offsets: at least the number of records, because compaction and transactions leave gaps. */
  public long size() {
    return Math.max(0, end - start);
  }
}
