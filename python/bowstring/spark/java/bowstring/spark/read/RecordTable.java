package bowstring.spark.read;

import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Topics as a table. Options of the table ({@code CREATE TABLE … OPTIONS}) hold unless the query gives its own. */
public class RecordTable implements SupportsRead {
  private final Map<String, String> tableOptions;
  private final StructType schema;

  /** A table with the options it was declared with. */
  public RecordTable(StructType schema, Map<String, String> tableOptions) {
    this.schema = schema;
    this.tableOptions = new HashMap<>(tableOptions);
  }

  @Override
  public String name() {
    return "bowstring columnar";
  }

  @Override
  public Column[] columns() {
    return Arrays.stream(schema.fields())
        .map(field -> Column.create(field.name(), field.dataType(), field.nullable())).toArray(Column[]::new);
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ,
        TableCapability.ACCEPT_ANY_SCHEMA);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new RecordScanBuilder(merged(options));
  }

  /** The table's options with the query's on top. */
  protected final CaseInsensitiveStringMap merged(CaseInsensitiveStringMap options) {
    Map<String, String> all = new HashMap<>();
    new CaseInsensitiveStringMap(tableOptions).forEach(all::put);
    all.putAll(options);
    return new CaseInsensitiveStringMap(all);
  }
}
