package bowstring.spark.read;

import bowstring.spark.audit.CountAccumulator;
import bowstring.spark.audit.WindowCounts;
import bowstring.spark.wire.ClientOptions;
import bowstring.spark.wire.WireException;
import java.io.IOException;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads one offset range as ColumnarBatches.
 *
 * <p>A batch is valid until the next one is requested: its bytes are in the connection's buffer, a mapped file or the
 * decoder's memory, all of which {@link #close} releases.
 */
final class ColumnarRecordReader implements PartitionReader<ColumnarBatch> {
  private final OffsetRange range;
  private final ReadSettings settings;
  private final RecordBatchBuilder builder;
  private final Regions regions;
  private final CountAccumulator audit;
  private final WindowCounts counts;
  private boolean hasRegion;
  private long records;

  /**
   * A reader of one range.
   *
   * @param audit takes the counts of the records; null if they are not counted
   */
  ColumnarRecordReader(RecordPartition input, ReadSettings settings, CountAccumulator audit) throws IOException {
    this.audit = audit;
    this.counts = audit == null ? null : audit.newCounts();
    this.range = input.range();
    this.settings = settings;
    ClientOptions options = ClientOptions.of(settings.options());
    this.builder = new RecordBatchBuilder(settings, options, range.partition(), false, audit != null);
    this.regions = RegionSources.open(input, options, settings);
  }

  @Override
  public boolean next() throws IOException {
    while (records < settings.limit()) {
      if (hasRegion) {
        if (builder.next(regions.startOffset(), range.end(), settings.limit() - records)) {
          if (counts != null) {
            builder.count(counts, 0, builder.batch().numRows());
          }
          if (builder.batch().numRows() > 0) {
            records += builder.batch().numRows();
            return true;
          }
          continue;
        }
        hasRegion = false;
      }
      if (regions.nextOffset() >= range.end()) {
        return false;
      }
      if (regions.advance(settings.pollTimeoutMs())) {
        builder.begin(regions);
        hasRegion = true;
      } else if (regions.nextOffset() < range.end()) {
        nothingCame();
        return false;
      }
    }
    return false;
  }

  private void nothingCame() throws WireException.TimedOut {
    String what = "No record of " + range.partition() + " at or after offset " + regions.nextOffset() + " came within "
        + "kafkaConsumer.pollTimeoutMs (" + settings.pollTimeoutMs() + " ms), though the range ends at " + range.end();
    if (settings.failOnDataLoss()) {
      throw new WireException.TimedOut(what + ": the log was truncated, or (with read_committed) a transaction is "
          + "open below that offset. To continue without these records, set failOnDataLoss to false");
    }
    settings.reportLoss(what);
  }

  @Override
  public ColumnarBatch get() {
    return builder.batch();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return SourceMetrics.of(records, regions);
  }

  @Override
  public void close() throws IOException {
    if (audit != null) {
      audit.add(new CountAccumulator.RangeCounts(range.toString(), counts));
    }
    try {
      regions.close();
    } finally {
      builder.close();
    }
  }
}
