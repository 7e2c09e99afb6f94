package bowstring.spark.read;

import java.util.ArrayList;
import java.util.List;

/**
 * Splits offset ranges into tasks: one for each partition, more if maxRecordsPerPartition or minPartitions require it.
 *
 * <p>Like Spark's Kafka source, so that jobs keep their number of tasks: ranges longer than maxRecordsPerPartition are
 * split evenly; if there are then fewer than minPartitions, those larger than their share are split in proportion to
 * their size. The resulting number is approximate.
 */
final class RangePlanner {
  private final Long minPartitions;
  private final Long maxRecordsPerPartition;

  RangePlanner(Long minPartitions, Long maxRecordsPerPartition) {
    this.minPartitions = minPartitions;
    this.maxRecordsPerPartition = maxRecordsPerPartition;
  }

  /** The tasks' ranges; empty ones are left out. */
  List<OffsetRange> plan(List<OffsetRange> ranges) {
    List<OffsetRange> pieces = new ArrayList<>();
    for (OffsetRange range : ranges) {
      if (range.size() > 0) {
        long parts = maxRecordsPerPartition == null ? 1
            : (range.size() - 1) / maxRecordsPerPartition + 1;
        cut(range, parts, pieces);
      }
    }
    return minPartitions == null || pieces.size() >= minPartitions ? pieces : spread(pieces);
  }

  private List<OffsetRange> spread(List<OffsetRange> ranges) {
    long total = ranges.stream().mapToLong(OffsetRange::size).sum();
    long small = 0;
    long smallSize = 0;
    for (OffsetRange range : ranges) {
      if (share(range.size(), total, minPartitions) == 1) {
        small++;
        smallSize += range.size();
      }
    }
    long partsOfLarge = Math.max(minPartitions - small, 1);
    List<OffsetRange> pieces = new ArrayList<>();
    for (OffsetRange range : ranges) {
      boolean isSmall = share(range.size(), total, minPartitions) == 1;
      cut(range, isSmall ? 1 : share(range.size(), total - smallSize, partsOfLarge), pieces);
    }
    return pieces;
  }

  private static long share(long size, long total, long parts) {
    return Math.max(Math.round((double) size / total * parts), 1);
  }

  private static void cut(OffsetRange range, long parts, List<OffsetRange> into) {
    long start = range.start();
    long left = range.size();
    for (long part = 0; part < parts && left > 0; part++) {
      long size = left / (parts - part);
      if (size > 0) {
        into.add(new OffsetRange(range.partition(), start, start + size));
      }
      start += size;
      left -= size;
    }
  }
}
