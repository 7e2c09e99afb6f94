package bowstring.spark.read;

import bowstring.spark.audit.CountAccumulator;
import bowstring.spark.wire.TopicPartition;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The read of one query. A batch query's offsets are resolved once, on first use, so that its statistics and its tasks
 * refer to the same records.
 */
final class RecordScan implements Scan, Batch, SupportsReportStatistics {
  private static final Logger LOG = LoggerFactory.getLogger(RecordScan.class);

  /** For statistics: bytes of a record with all columns, until a better value is known. */
  private static final long GUESSED_RECORD_BYTES = 150;

  private final SourceOptions options;
  private final StructType schema;
  private final PushedFilters filters;
  private final PushedAggregates aggregates;
  private final long limit;
  private boolean isStream;
  private OffsetReader offsets;
  private List<OffsetRange> ranges;

  /**
   * A scan of what a query needs.
   *
   * @param schema columns of the records; ignored if there are aggregates
   * @param aggregates that the tasks compute; null if they return records
   */
  RecordScan(SourceOptions options, StructType schema, PushedFilters filters, PushedAggregates aggregates,
      long limit) {
    this.options = options;
    this.schema = aggregates == null ? schema : aggregates.needed();
    this.filters = filters;
    this.aggregates = aggregates;
    this.limit = limit;
  }

  @Override
  public StructType readSchema() {
    return aggregates == null ? schema : aggregates.schema();
  }

  @Override
  public String description() {
    String local = switch (options.localMode()) {
      case FALSE -> "TCP";
      case TRUE -> "mapped";
      case AUTO -> "mapped or TCP";
    };
    return "bowstring columnar, " + local + ", " + options.subscription()
        + (filters.pushed().length > 0 ? ", PushedFilters: " + filters : "")
        + (aggregates == null ? "" : ", " + aggregates)
        + (limit == ReadSettings.UNLIMITED ? "" : ", PushedLimit: " + limit);
  }

  @Override
  public String toString() {
    return description();
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return SourceMetrics.supported();
  }

  @Override
  public Batch toBatch() {
    options.forBatch();
    LOG.info("Batch query reads with {}", description());
    return this;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    options.forStream();
    isStream = true;
    LOG.info("Streaming query reads with {}", description());
    return new RecordStream(options, ReadSettings.of(options, schema, limit, filters.minTimestampMs()),
        checkpointLocation, description());
  }

  private synchronized List<OffsetRange> ranges() {
    if (ranges == null) {
      options.forBatch();
      offsets = new OffsetReader(options);
      Set<TopicPartition> partitions = offsets.partitions(true);
      Map<TopicPartition, Long> start =
          offsets.resolve(options.startingOffsets(new OffsetLimit.Earliest()), partitions, true);
      Map<TopicPartition, Long> end = offsets.resolve(options.endingOffsets(), partitions, false);
      Map<TopicPartition, Long> from = new TreeMap<>(start);
      if (filters.minTimestampMs() != ReadSettings.ANY_TIMESTAMP) {
        moveToTimestamp(from, end);
      }
      mustNotBeReversed(start, end);
      List<OffsetRange> found = new ArrayList<>();
      for (TopicPartition partition : partitions) {
        if (filters.selects(partition)) {
          found.add(filters.narrow(new OffsetRange(partition, from.get(partition), end.get(partition))));
        }
      }
      ranges = new RangePlanner(options.minPartitions(), options.maxRecordsPerPartition()).plan(found);
    }
    return ranges;
  }

  private void mustNotBeReversed(Map<TopicPartition, Long> start, Map<TopicPartition, Long> end) {
    start.forEach((partition, from) -> {
      if (from > end.get(partition)) {
        String what = "The resolved start offset " + from + " of " + partition
            + " is greater than its end offset " + end.get(partition);
        if (options.failOnDataLoss()) {
          throw new IllegalArgumentException(what);
        }
        LOG.warn("{}; nothing is read from it, because failOnDataLoss is false", what);
      }
    });
  }

  /** All records before the first one that is late enough are too early, whatever their order of time is. */
  private void moveToTimestamp(Map<TopicPartition, Long> start, Map<TopicPartition, Long> end) {
    long timestamp = Math.max(0, filters.minTimestampMs());
    if (timestamp == 0) {
      return;
    }
    offsets.offsets(start.keySet(), timestamp).forEach((partition, offset) ->
        start.merge(partition, offset < 0 ? end.get(partition) : offset, Math::max));
  }

  @Override
  public InputPartition[] planInputPartitions() {
    List<OffsetRange> planned = ranges();
    if (planned.isEmpty() && aggregates != null && !aggregates.isGrouped()) {
      // a count over nothing is also a row, which Spark then expects from the source
      return new InputPartition[] {offsets.task(new OffsetRange(new TopicPartition("", 0), 0, 0))};
    }
    return planned.stream().map(offsets::task).toArray(InputPartition[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    ReadSettings settings = ReadSettings.of(options, schema, limit, filters.minTimestampMs());
    CountAccumulator audit = CountAccumulator.register(options.audit());
    if (audit != null) {
      audit.begin(UUID.randomUUID().toString());
    }
    return aggregates == null ? new RecordReaderFactory(settings, false, audit)
        : new AggregateReaderFactory(settings, aggregates, audit);
  }

  @Override
  public Statistics estimateStatistics() {
    if (isStream) {
      return new Estimate(OptionalLong.empty(), OptionalLong.empty()); // without a batch nothing is known
    }
    if (aggregates != null) {
      int tasks = Math.max(1, ranges().size());
      return new Estimate(OptionalLong.of(tasks * GUESSED_RECORD_BYTES), OptionalLong.of(tasks));
    }
    long rows = ranges().stream().mapToLong(range -> Math.min(range.size(), limit)).sum();
    return new Estimate(OptionalLong.of(rows * GUESSED_RECORD_BYTES), OptionalLong.of(rows));
  }

  private record Estimate(OptionalLong sizeInBytes, OptionalLong numRows) implements Statistics {
  }
}
