package bowstring.spark.audit;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.util.AccumulatorV2;

/**
 * Carries what a source's tasks have counted to the driver, by range of offsets.
 *
 * <p>Spark passes on what successful tasks have added, and runs some of them again, and several jobs may read a range,
 * not all of them to its end: a range counts once, as the read that went furthest. On the driver {@link #begin} names
 * what is read; what tasks add is reported under that name.
 */
public final class CountAccumulator extends AccumulatorV2<CountAccumulator.RangeCounts, Map<String, WindowCounts>> {
  private static final long serialVersionUID = 1L;

  /** What a task has counted of one range of offsets. */
  public record RangeCounts(String range, WindowCounts counts) {}

  /** Also read by the thread of an executor's heartbeats. */
  private final ConcurrentHashMap<String, WindowCounts> ranges = new ConcurrentHashMap<>();

  private final AuditOptions options;

  /** What is read, on the driver; guarded by this, as the two below. */
  private transient String unit = "";

  /** The largest counts of each range, and all of them together. */
  private transient Map<String, WindowCounts> counted = new HashMap<>();

  private transient WindowCounts total;

  private CountAccumulator(AuditOptions options) {
    this.options = options;
  }

  /** An accumulator of this session; null without options. On the driver. */
  public static CountAccumulator register(AuditOptions options) {
    if (options == null) {
      return null;
    }
    CountAccumulator made = new CountAccumulator(options);
    SparkContext context = SparkContext.getOrCreate();
    context.register(made);
    CountReports.reportAtEnd(context);
    return made;
  }

  /** Begins what is read next, in the name of which the counts are reported; the same name continues. */
  public synchronized void begin(String name) {
    if (!name.equals(unit)) {
      unit = name;
      counted.clear();
      total = newCounts();
    }
  }

  /** Counts for a task. */
  public WindowCounts newCounts() {
    return new WindowCounts(options.windowMs());
  }

  @Override
  public void add(RangeCounts added) {
    ranges.merge(added.range(), added.counts(), this::larger);
  }

  private WindowCounts larger(WindowCounts one, WindowCounts other) {
    WindowCounts made = newCounts(); // the given ones may be on their way to the driver
    made.raise(one);
    made.raise(other);
    return made;
  }

  @Override
  public synchronized void merge(AccumulatorV2<RangeCounts, Map<String, WindowCounts>> other) {
    if (!isAtDriverSide() || total == null) {
      other.value().forEach((range, counts) -> ranges.merge(range, counts, this::larger));
      return;
    }
    WindowCounts added = newCounts();
    other.value().forEach((range, counts) ->
        added.addAll(counted.computeIfAbsent(range, first -> newCounts()).raise(counts)));
    if (!added.isEmpty()) {
      total.addAll(added);
      CountReports.of(options).put(unit, total);
    }
  }

  @Override
  public boolean isZero() {
    return ranges.isEmpty();
  }

  @Override
  public AccumulatorV2<RangeCounts, Map<String, WindowCounts>> copy() {
    CountAccumulator made = new CountAccumulator(options);
    made.ranges.putAll(ranges);
    return made;
  }

  @Override
  public void reset() {
    ranges.clear();
  }

  @Override
  public Map<String, WindowCounts> value() {
    return new HashMap<>(ranges);
  }
}
