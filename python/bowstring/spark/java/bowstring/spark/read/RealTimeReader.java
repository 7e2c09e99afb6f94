package bowstring.spark.read;

import bowstring.spark.audit.CountAccumulator;
import bowstring.spark.audit.WindowCounts;
import bowstring.spark.wire.ClientOptions;
import bowstring.spark.wire.ClusterClient;
import bowstring.spark.wire.WireException;
import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads one partition record by record as they arrive, without an end, for real-time mode.
 *
 * <p>Rows are views of a columnar batch: Spark copies what it needs before it requests the next row.
 */
final class RealTimeReader implements SupportsRealTimeRead<InternalRow> {
  private static final Logger LOG = LoggerFactory.getLogger(RealTimeReader.class);
  private static final int LONGEST_WAIT_MS = 500;
  private static final int RETRY_PAUSE_MS = 50;

  private final OffsetRange range;
  private final ReadSettings settings;
  private final RecordBatchBuilder builder;
  private final FetchedRegions regions;
  private final CountAccumulator audit;
  private final WindowCounts counts;
  private boolean hasRegion;
  private int row = -1;
  private int rows;
  private long nextUnread;
  private long records;
  private long failingSinceNanos;

  /**
   * A reader of one partition.
   *
   * @param audit takes the counts of the records; null if they are not counted
   */
  RealTimeReader(RecordPartition input, ReadSettings settings, CountAccumulator audit) throws IOException {
    this.audit = audit;
    this.counts = audit == null ? null : audit.newCounts();
    this.range = input.range();
    this.settings = settings;
    this.nextUnread = range.start();
    ClientOptions options = ClientOptions.of(settings.options());
    this.builder = new RecordBatchBuilder(settings, options, range.partition(), true, audit != null);
    this.regions = new FetchedRegions(input, options, settings);
    regions.withoutPrefetch();
  }

  @Override
  public PartitionOffset getOffset() {
    return new PartitionPosition(range.partition(), nextUnread);
  }

  @Override
  public RecordStatus nextWithTimeout(Long startMs, Long timeoutMs) throws IOException {
    long deadline = System.nanoTime() + timeoutMs * 1_000_000;
    while (true) {
      if (row + 1 < rows) {
        row++;
        records++;
        nextUnread = builder.offset(row) + 1;
        return RecordStatus.newStatusWithoutArrivalTime(true);
      }
      long leftMs = (deadline - System.nanoTime()) / 1_000_000;
      if (!fill((int) Math.max(0, Math.min(leftMs, LONGEST_WAIT_MS))) && System.nanoTime() - deadline >= 0) {
        return RecordStatus.newStatusWithoutArrivalTime(false);
      }
    }
  }

  /** Makes the next records current; false if none came in time. */
  private boolean fill(int waitMs) throws IOException {
    count();
    row = -1;
    rows = 0;
    if (!hasRegion) {
      if (!advance(waitMs)) {
        if (regions.nextOffset() == Long.MAX_VALUE) {
          ClusterClient.pause(waitMs); // the topic is gone, and failOnDataLoss is false: wait until the batch ends
        }
        return false;
      }
      builder.begin(regions);
      hasRegion = true;
      nextUnread = regions.startOffset(); // below the last offset read, if the log was truncated or created again
    }
    if (builder.next(Math.max(nextUnread, regions.startOffset()), range.end(), Integer.MAX_VALUE)) {
      rows = builder.batch().numRows();
      return true;
    }
    hasRegion = false;
    nextUnread = Math.max(nextUnread, regions.nextOffset()); // after the region's last record: markers, gaps
    return true;
  }

  /** Counts the rows that were returned of the present batch. */
  private void count() {
    if (counts != null && row >= 0) {
      builder.count(counts, 0, row + 1);
    }
  }

  /** A broker that is unavailable ends the query only after the poll timeout. */
  private boolean advance(int waitMs) throws IOException {
    try {
      boolean found = regions.advance(waitMs);
      failingSinceNanos = 0;
      return found;
    } catch (WireException failed) {
      long now = System.nanoTime();
      failingSinceNanos = failingSinceNanos == 0 ? now : failingSinceNanos;
      if (!failed.isRetriable() || now - failingSinceNanos > settings.pollTimeoutMs() * 1_000_000L) {
        throw failed;
      }
      LOG.info("Reading {} failed and is retried: {}", range.partition(), failed.getMessage());
      ClusterClient.pause(RETRY_PAUSE_MS);
      return false;
    }
  }

  @Override
  public boolean next() throws IOException {
    while (range.end() != Long.MAX_VALUE && nextUnread < range.end()) {
      if (nextWithTimeout(System.currentTimeMillis(), (long) settings.pollTimeoutMs()).hasRecord()) {
        return true;
      }
    }
    return false;
  }

  @Override
  public InternalRow get() {
    return builder.batch().getRow(row);
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return SourceMetrics.of(records, regions);
  }

  @Override
  public void close() throws IOException {
    if (audit != null) {
      count();
      audit.add(new CountAccumulator.RangeCounts(range.toString(), counts));
    }
    try {
      regions.close();
    } finally {
      builder.close();
    }
  }
}
