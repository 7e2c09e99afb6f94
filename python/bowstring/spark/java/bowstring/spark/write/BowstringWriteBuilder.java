package bowstring.spark.write;

import bowstring.spark.values.RegistryWriting;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;

/**
 * Begins a write: checks options and columns on the driver, before any task starts.
 *
 * <p>Topics are append-only. So, as with Spark's own Kafka sink, a stream in update or complete mode appends its
 * changes. The batch table does not offer truncation.
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
    RowLayout layout = RowLayout.of(info.schema(), options.topic, RegistryWriting.encodes(info.options(), "key"),
        RegistryWriting.encodes(info.options(), "value"));
    RowEncoding encoding = RowEncoding.of(info.options(), layout);
    return new BowstringWrite(options, layout, encoding, info.queryId());
  }
}
