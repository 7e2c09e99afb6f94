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
    String format = info.options().getOrDefault("value.format", "");
    RowLayout layout = RowLayout.of(info.schema(), options.topic, format.trim().equalsIgnoreCase("registry"));
    RegistryWriting encoding =
        layout.valueType() == null ? null : RegistryWriting.of(info.options(), layout.valueType());
    return new BowstringWrite(options, layout, encoding, info.queryId());
  }
}
