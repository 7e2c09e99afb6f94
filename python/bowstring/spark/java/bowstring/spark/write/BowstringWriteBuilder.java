package bowstring.spark.write;

import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;

/** Begins a write: options and columns are looked at here, at the driver, before any task starts. */
public final class BowstringWriteBuilder implements WriteBuilder {
  private final LogicalWriteInfo info;

  public BowstringWriteBuilder(LogicalWriteInfo info) {
    this.info = info;
  }

  @Override
  public Write build() {
    SinkOptions options = SinkOptions.of(info.options());
    return new BowstringWrite(options, RowLayout.of(info.schema(), options.topic));
  }
}
