package bowstring.spark.read;

import bowstring.spark.wire.TopicPartition;
import java.io.Serializable;

/** Records of one partition with offsets in [start, end). */
public record OffsetRange(TopicPartition partition, long start, long end) implements Serializable {
  /** Offsets in the range: at least as many as records, which compaction and transactions thin out. */
  public long size() {
    return Math.max(0, end - start);
  }
}
