package bowstring.spark.read;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** The scan's metrics in Spark's UI and in the progress of queries: sums over tasks. */
public final class SourceMetrics {
  private static final String RECORDS = "recordsRead";
  private static final String BYTES = "bytesRead";
  private static final String FETCHES = "fetches";
  private static final String OUT_OF_RANGE = "offsetOutOfRange";

  private SourceMetrics() {}

  static CustomMetric[] supported() {
    return new CustomMetric[] {new Records(), new Bytes(), new Fetches(), new OutOfRange()};
  }

  static CustomTaskMetric[] of(long records, Regions regions) {
    return new CustomTaskMetric[] {new Value(RECORDS, records), new Value(BYTES, regions.bytes()),
      new Value(FETCHES, regions.fetches()), new Value(OUT_OF_RANGE, regions.outOfRange())};
  }

  private record Value(String name, long value) implements CustomTaskMetric {}

  /** Records returned to Spark. */
  public static final class Records extends CustomSumMetric {
    @Override
    public String name() {
      return RECORDS;
    }

    @Override
    public String description() {
      return "records read";
    }
  }

  /** Bytes of record batches, as stored. */
  public static final class Bytes extends CustomSumMetric {
    @Override
    public String name() {
      return BYTES;
    }

    @Override
    public String description() {
      return "bytes of record batches read";
    }
  }

  /** Requests for records. */
  public static final class Fetches extends CustomSumMetric {
    @Override
    public String name() {
      return FETCHES;
    }

    @Override
    public String description() {
      return "fetch requests";
    }
  }

  /** Offsets that were gone or not yet written. */
  public static final class OutOfRange extends CustomSumMetric {
    @Override
    public String name() {
      return OUT_OF_RANGE;
    }

    @Override
    public String description() {
      return "estimated number of fetched offsets out of range";
    }
  }
}
