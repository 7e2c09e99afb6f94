package bowstring.spark.write;

import java.util.Locale;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/**
 * What a task has written so far. The first two names are those Spark also counts as the task's output, so that they
 * show in the stages of its UI.
 */
final class WriteMetrics {
  long records;
  long bytes;
  long requests;
  long retries;

  private record Value(String name, long value) implements CustomTaskMetric {}

  /** The values of this moment. */
  CustomTaskMetric[] current() {
    return new CustomTaskMetric[] {
      new Value(Records.NAME, records), new Value(Bytes.NAME, bytes), new Value(Requests.NAME, requests),
      new Value(Retries.NAME, retries),
    };
  }

  /** The metrics a write declares. */
  static CustomMetric[] declared() {
    return new CustomMetric[] {new Records(), new Bytes(), new Requests(), new Retries()};
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

  /** Spark makes one by reflection to add up what tasks report. */
  public static final class Records extends Sum {
    static final String NAME = "recordsWritten";

    public Records() {
      super(NAME, "records acknowledged");
    }
  }

  /** Bytes of record batches, compressed as they were sent. */
  public static final class Bytes extends Sum {
    static final String NAME = "bytesWritten";

    public Bytes() {
      super(NAME, "bytes of record batches acknowledged");
    }
  }

  /** Produce requests. */
  public static final class Requests extends Sum {
    static final String NAME = "produceRequests";

    public Requests() {
      super(NAME, "produce requests");
    }
  }

  /** How often a partition's batches had to be sent again. */
  public static final class Retries extends Sum {
    static final String NAME = "produceRetries";

    public Retries() {
      super(NAME, "produce retries");
    }
  }
}
