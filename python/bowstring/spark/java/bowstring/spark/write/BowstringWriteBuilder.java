package bowstring.spark.write;

import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;

/**
 * Begins a write: options and columns are looked at here, at the driver, before any task starts.
 *
 * <p>A topic is only ever added to, so a stream in update or complete mode appends what it would change, as with Spark's
 * own Kafka sink. The batch table does not offer to be truncated.
 */
public final class BowstringWriteBuilder implements SupportsTruncate, SupportsStreamingUpdateAsAppend {
  private final LogicalWriteInfo info;

  public BowstringWriteBuilder(LogicalWriteInfo info) {
    this.info = info;
  }

  @Override
  public WriteBuilder truncate() {
    return this;
  }

  @Override
  public Write build() {
    SinkOptions options = SinkOptions.of(info.options());
    return new BowstringWrite(options, RowLayout.of(info.schema(), options.topic));
  }
}
