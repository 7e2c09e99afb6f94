package bowstring.spark.read;

import bowstring.spark.audit.CountAccumulator;
import bowstring.spark.wire.ClusterClient;
import bowstring.spark.wire.TopicPartition;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A topic as a stream: micro-batches, AvailableNow and real-time mode.
 *
 * <p>Offsets, rate limits and the definition of lost data are those of Spark's Kafka source, so that a query can move
 * here with its checkpoint. Used by the query's own thread; only metrics may come from another thread.
 */
final class RecordStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, SupportsRealTimeMode, ReportsSourceMetrics {
  private static final Logger LOG = LoggerFactory.getLogger(RecordStream.class);

  private final SourceOptions options;
  private final ReadSettings settings;
  private final String checkpoint;
  private final String description;
  private final OffsetReader offsets;
  private final RateLimiter limiter;
  private volatile Map<TopicPartition, Long> latest;
  private boolean availableNow;
  private Map<TopicPartition, Long> availableNowEnd;
  private boolean realTime;

  /** Takes the counts of tasks; null without an audit. */
  private final CountAccumulator audit;

  RecordStream(SourceOptions options, ReadSettings settings, String checkpoint, String description) {
    this.options = options;
    this.settings = settings;
    this.checkpoint = checkpoint;
    this.description = description;
    this.offsets = new OffsetReader(options);
    this.limiter = new RateLimiter(offsets);
    this.audit = CountAccumulator.register(options.audit());
  }

  @Override
  public Offset initialOffset() {
    return new SourceOffset(new InitialOffsets(checkpoint).getOrWrite(() -> {
      Set<TopicPartition> partitions = offsets.partitions(true);
      Map<TopicPartition, Long> start =
          offsets.resolve(options.startingOffsets(new OffsetLimit.Latest()), partitions, true);
      LOG.info("Initial offsets: {}", start);
      return start;
    }));
  }

  @Override
  public Offset deserializeOffset(String json) {
    return SourceOffset.parse(json);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    Long most = options.maxOffsetsPerTrigger();
    Long least = options.minOffsetsPerTrigger();
    if (least != null) {
      ReadLimit lower = ReadLimit.minRows(least, options.maxTriggerDelayMs());
      return most == null ? lower : ReadLimit.compositeLimit(new ReadLimit[] {lower, ReadLimit.maxRows(most)});
    }
    return most == null ? ReadLimit.allAvailable() : ReadLimit.maxRows(most);
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) should be called instead of this method");
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    Map<TopicPartition, Long> from = SourceOffset.of(start);
    Map<TopicPartition, Long> end = availableNowEnd;
    if (end == null) {
      end = offsets.latest(from);
      if (availableNow) {
        availableNowEnd = end;
      }
    }
    latest = end;
    if (settings.failOnDataLoss()) {
      reportDeleted(from, end); // before Spark's offset log records that they are gone: they may come back
    }
    Map<TopicPartition, Long> limited = limiter.limit(from, end, limit);
    // An empty result after a non-empty one is reported by planInputPartitions; null would mean "nothing new".
    return limited.isEmpty() && from.isEmpty() ? null : new SourceOffset(limited);
  }

  @Override
  public Offset reportLatestOffset() {
    Map<TopicPartition, Long> known = latest;
    return known == null || known.isEmpty() ? null : new SourceOffset(known);
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    availableNow = true;
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    Map<TopicPartition, Long> from = SourceOffset.of(start);
    Map<TopicPartition, Long> until = SourceOffset.of(end);
    beginCounts(from);
    Map<TopicPartition, Long> complete = withNewPartitions(from, until);
    reportDeleted(from, until);
    if (availableNowEnd != null) {
      checkAvailableNow(until);
    }
    List<OffsetRange> ranges = new ArrayList<>();
    until.forEach((partition, to) -> {
      Long begin = complete.get(partition);
      if (begin != null) {
        if (to < begin) {
          settings.reportLoss("Partition " + partition + "'s offset was changed from " + begin + " to " + to);
        }
        ranges.add(new OffsetRange(partition, begin, to));
      }
    });
    return tasks(new RangePlanner(options.minPartitions(), options.maxRecordsPerPartition()).plan(ranges));
  }

  private InputPartition[] tasks(List<OffsetRange> ranges) {
    if (!offsets.hasLooked()) {
      offsets.partitions(false); // a query that has just recovered has no metadata yet
    }
    return ranges.stream().map(offsets::task).toArray(InputPartition[]::new);
  }

  /** Names the batch that begins for the audit: by the query, which keeps its id, this source of it, and its start. */
  private void beginCounts(Map<TopicPartition, Long> from) {
    if (audit != null) {
      String query = SparkContext.getOrCreate().getLocalProperty("sql.streaming.queryId");
      String place = checkpoint.substring(checkpoint.lastIndexOf('/') + 1);
      String text = (query == null ? checkpoint : query) + "/" + place + "/" + OffsetJson.write(from);
      audit.begin(UUID.nameUUIDFromBytes(text.getBytes(StandardCharsets.UTF_8)).toString());
    }
  }

  /** Partitions that are new in this batch start at their first offset, which should be 0. */
  private Map<TopicPartition, Long> withNewPartitions(Map<TopicPartition, Long> from,
      Map<TopicPartition, Long> until) {
    Set<TopicPartition> added = new TreeSet<>(until.keySet());
    added.removeAll(from.keySet());
    Map<TopicPartition, Long> complete = new TreeMap<>(from);
    if (added.isEmpty()) {
      return complete;
    }
    Map<TopicPartition, Long> earliest = earliestOfExisting(added);
    Set<TopicPartition> gone = new TreeSet<>(added);
    gone.removeAll(earliest.keySet());
    if (!gone.isEmpty()) {
      settings.reportLoss("Cannot find earliest offsets of " + gone);
    }
    LOG.info("Partitions added: {}", earliest);
    earliest.forEach((partition, offset) -> {
      if (offset != 0) {
        settings.reportLoss("Added partition " + partition + " starts from " + offset + " instead of 0");
      }
    });
    complete.putAll(earliest);
    return complete;
  }

  private Map<TopicPartition, Long> earliestOfExisting(Set<TopicPartition> wanted) {
    Set<TopicPartition> existing = offsets.partitions(false);
    existing.retainAll(wanted);
    return offsets.offsets(existing, ClusterClient.EARLIEST);
  }

  private void reportDeleted(Map<TopicPartition, Long> from, Map<TopicPartition, Long> until) {
    Set<TopicPartition> deleted = new TreeSet<>(from.keySet());
    deleted.removeAll(until.keySet());
    if (!deleted.isEmpty()) {
      settings.reportLoss(deleted + " are gone");
    }
  }

  /** Partitions present at the start of an AvailableNow query must exist until its end. */
  private void checkAvailableNow(Map<TopicPartition, Long> until) {
    Map<TopicPartition, Long> now = offsets.latest(until);
    until.forEach((partition, to) -> {
      Long end = now.get(partition);
      if (end == null || to > end) {
        throw new DataLossException("With Trigger.AvailableNow, " + partition + " must be read up to offset " + to
            + (end == null ? ", but no longer exists" : ", but now ends at " + end) + ": restart the query");
      }
    });
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new RecordReaderFactory(settings, realTime, audit);
  }

  @Override
  public void prepareForRealTimeMode() {
    realTime = true;
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start) {
    realTime = true;
    Map<TopicPartition, Long> from = SourceOffset.of(start);
    beginCounts(from);
    Set<TopicPartition> existing = offsets.existing(from.keySet());
    Map<TopicPartition, Long> until = new TreeMap<>();
    existing.forEach(partition -> until.put(partition, Long.MAX_VALUE));
    Map<TopicPartition, Long> complete = withNewPartitions(from, until);
    reportDeleted(from, until);
    List<OffsetRange> ranges = new ArrayList<>();
    complete.forEach((partition, begin) -> {
      if (existing.contains(partition)) {
        ranges.add(new OffsetRange(partition, begin, Long.MAX_VALUE));
      }
    });
    return ranges.stream().map(offsets::task).toArray(InputPartition[]::new);
  }

  @Override
  public Offset mergeOffsets(PartitionOffset[] positions) {
    Map<TopicPartition, Long> merged = new TreeMap<>();
    for (PartitionOffset position : positions) {
      PartitionPosition ours = (PartitionPosition) position;
      merged.put(ours.partition(), ours.offset());
    }
    return new SourceOffset(merged);
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumed) {
    Map<TopicPartition, Long> known = latest;
    return latestConsumed.isEmpty() || known == null ? Map.of()
        : new LagMetrics(options).of(SourceOffset.of(latestConsumed.get()), known);
  }

  @Override
  public void commit(Offset end) {
    // Spark's checkpoint stores the offsets
  }

  @Override
  public void stop() {
    // connections belong to the pool
  }

  @Override
  public String toString() {
    return description;
  }
}
