package bowstring.spark.read;

import bowstring.spark.wire.TopicPartition;
import java.util.Map;

/** Where a query starts or ends in each partition, according to its options. */
public sealed interface OffsetLimit {
  /** Offsets with a special meaning in the options' JSON. */
  long LATEST = -1;

  long EARLIEST = -2;

  /** The first existing offset. */
  record Earliest() implements OffsetLimit {}

  /** The end of the log when the query is planned. */
  record Latest() implements OffsetLimit {}

  /** An offset for each partition; -1 and -2 as above. */
  record Offsets(Map<TopicPartition, Long> offsets) implements OffsetLimit {}

  /**
   * The first record at or after a time (milliseconds since 1970), for each partition.
   *
   * @param latestIfNone whether a start without such a record is the end of the log, instead of an error
   */
  record Timestamps(Map<TopicPartition, Long> timestamps, boolean latestIfNone) implements OffsetLimit {}

  /** The same time for all partitions. */
  record Timestamp(long timestamp, boolean latestIfNone) implements OffsetLimit {}
}
