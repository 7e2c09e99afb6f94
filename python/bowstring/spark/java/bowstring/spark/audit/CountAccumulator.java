package bowstring.spark.audit;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.util.AccumulatorV2;

/**
 * Carries what a source's tasks have counted to the driver, by range of offsets.
 *
 * <p>Spark passes on what successful tasks have added, and runs some of them again: a range counts once. On the driver
 * {@link #begin} names what is read; what tasks add is reported under that name.
 */
public final class CountAccumulator extends AccumulatorV2<CountAccumulator.RangeCounts, Map<String, WindowCounts>> {
  private static final long serialVersionUID = 1L;

  /** The counts of one range of offsets, all of them. */
  public record RangeCounts(String range, WindowCounts counts) {}

  /** Also read by the thread of an executor's heartbeats. */
  private final ConcurrentHashMap<String, WindowCounts> ranges = new ConcurrentHashMap<>();

  private final AuditOptions options;

  /** On the driver, guarded by this. */
  private transient String unit = "";

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
      ranges.clear();
    }
  }

  /** Counts for a task. */
  public WindowCounts newCounts() {
    return new WindowCounts(options.windowMs());
  }

  @Override
  public void add(RangeCounts counted) {
    ranges.put(counted.range(), counted.counts());
  }

  @Override
  public synchronized void merge(AccumulatorV2<RangeCounts, Map<String, WindowCounts>> other) {
    boolean changed = false;
    for (Map.Entry<String, WindowCounts> each : other.value().entrySet()) {
      WindowCounts known = ranges.get(each.getKey());
      if (known == null || known.records() < each.getValue().records()) {
        ranges.put(each.getKey(), each.getValue());
        changed = true;
      }
    }
    if (changed && isAtDriverSide() && unit != null && !unit.isEmpty()) {
      WindowCounts total = newCounts();
      ranges.values().forEach(total::addAll);
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
