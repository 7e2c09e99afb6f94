package bowstring.spark.read;

import bowstring.spark.OptionNames;
import bowstring.spark.write.BowstringWriteBuilder;
import bowstring.spark.write.SavedTopics;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Topics as a table. Options of the table ({@code CREATE TABLE … OPTIONS}) apply unless the query sets them. */
public final class RecordTable implements SupportsRead, SupportsWrite {
  private static final List<String> READS = List.of("subscribe", "subscribePattern", "assign");

  private final Map<String, String> tableOptions;
  private final StructType schema;

  /**
   * A table with the options of its declaration.
   *
   * @param schema the source's, or those of its columns that are needed
   * @throws IllegalArgumentException if the schema has other columns than the source, or an option is unknown
   */
  public RecordTable(StructType schema, Map<String, String> tableOptions) {
    this.schema = schema;
    this.tableOptions = new HashMap<>(tableOptions);
    OptionNames.check(tableOptions);
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(tableOptions);
    boolean isRead = READS.stream().anyMatch(options::containsKey);
    if (isRead && !options.containsKey("topic")) {
      checkColumns(); // otherwise these may be the columns of a query whose rows are written
    }
  }

  private void checkColumns() {
    StructType offered = SourceSchema.of(tableOptions);
    for (StructField field : schema.fields()) {
      if (!offered.getFieldIndex(field.name()).isDefined()
          || !offered.apply(field.name()).dataType().sameType(field.dataType())) {
        throw new IllegalArgumentException("The source has no column " + field.name() + " of type "
            + field.dataType().simpleString() + ": its columns are " + offered.simpleString()
            + " (headers only with option includeHeaders)");
      }
    }
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
    Set<TableCapability> capabilities = EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ,
        TableCapability.STREAMING_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
    if (SavedTopics.isDirect(tableOptions)) {
      capabilities.add(TableCapability.BATCH_WRITE);
    }
    return capabilities;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    checkColumns();
    OptionNames.check(options);
    return new RecordScanBuilder(merged(options), schema);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    OptionNames.check(info.options());
    return new BowstringWriteBuilder(new TableWrite(info, merged(info.options())));
  }

  /** The table's options, overridden by the query's. */
  private CaseInsensitiveStringMap merged(CaseInsensitiveStringMap options) {
    Map<String, String> all = new HashMap<>();
    new CaseInsensitiveStringMap(tableOptions).forEach(all::put);
    all.putAll(options);
    return new CaseInsensitiveStringMap(all);
  }

  /** A write with the table's options. */
  private record TableWrite(LogicalWriteInfo query, CaseInsensitiveStringMap options) implements LogicalWriteInfo {
    @Override
    public String queryId() {
      return query.queryId();
    }

    @Override
    public StructType schema() {
      return query.schema();
    }

    @Override
    public Optional<StructType> rowIdSchema() {
      return query.rowIdSchema();
    }

    @Override
    public Optional<StructType> metadataSchema() {
      return query.metadataSchema();
    }
  }
}
