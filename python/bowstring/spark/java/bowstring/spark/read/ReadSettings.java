package bowstring.spark.read;

import bowstring.spark.values.ValueFormat;
import java.io.Serializable;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Settings that the driver sends to the readers.
 *
 * @param options the source's options, from which a task makes its client options
 * @param schema the wanted columns
 * @param format of typed values, null for bytes
 * @param failOnDataLoss whether missing records end the query
 * @param pollTimeoutMs how long a reader waits for records that should exist
 * @param limit most rows needed of each partition
 * @param minTimestampMs batches that are completely older may be skipped
 * @param local whether to map the broker's files
 */
public record ReadSettings(TreeMap<String, String> options, StructType schema, ValueFormat format,
    boolean failOnDataLoss, int pollTimeoutMs, long limit, long minTimestampMs, LocalMode local)
    implements Serializable {
  private static final Logger LOG = LoggerFactory.getLogger(ReadSettings.class);

  /** No limit. */
  static final long UNLIMITED = Long.MAX_VALUE;

  /** No lower bound of timestamps. */
  static final long ANY_TIMESTAMP = Long.MIN_VALUE;

  /** Whether the broker's files are mapped: never; always, or the read fails; if possible. */
  enum LocalMode {
    FALSE,
    TRUE,
    AUTO
  }

  static ReadSettings of(SourceOptions options, StructType schema, long limit, long minTimestampMs) {
    Map<String, String> all = options.asMap();
    return new ReadSettings(new TreeMap<>(all), schema, options.valueFormat(), options.failOnDataLoss(),
        options.pollTimeoutMs(), limit, minTimestampMs, options.localMode());
  }

  /**
   * Reports missing records.
   *
   * @throws DataLossException if failOnDataLoss is true
   */
  void reportLoss(String what) {
    if (failOnDataLoss) {
      throw new DataLossException(what);
    }
    LOG.warn("{}. Some data may have been lost; failOnDataLoss is false, so the query continues", what);
  }
}
