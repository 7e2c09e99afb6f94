package bowstring.spark.write;

import java.util.Locale;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/**
 * What a task has written so far. Spark also counts metrics of these names as the task's output, so that they appear in
 * the stages of its UI. It reads them last before the task's end, so rows count when they are taken, not when they are
 * acknowledged; a task whose rows are not acknowledged fails.
 */
final class WriteMetrics {
  long records;
  long bytes;

  private record Value(String name, long value) implements CustomTaskMetric {}

  /** The present values. */
  CustomTaskMetric[] current() {
    return new CustomTaskMetric[] {new Value(Records.NAME, records), new Value(Bytes.NAME, bytes)};
  }

  /** The metrics a write declares. */
  static CustomMetric[] declared() {
    return new CustomMetric[] {new Records(), new Bytes()};
  }

  private abstract static class Sum extends CustomSumMetric {
    private final String name;
    private final String description;

    Sum(String name, String description) {
      this.name = name;
      this.description = description;
    }

    @Override
    public String name() {
      return name;
    }

    @Override
    public String description() {
      return description;
    }

    @Override
    public String aggregateTaskMetrics(long[] taskMetrics) {
      long sum = 0;
      for (long each : taskMetrics) {
        sum += each;
      }
      return String.format(Locale.ROOT, "%,d", sum);
    }
  }

  /** Spark creates it by reflection to add up the tasks' reports. */
  public static final class Records extends Sum {
    static final String NAME = "recordsWritten";

    public Records() {
      super(NAME, "records written");
    }
  }

  /** Bytes of records before compression. */
  public static final class Bytes extends Sum {
    static final String NAME = "bytesWritten";

    public Bytes() {
      super(NAME, "bytes written");
    }
  }
}
