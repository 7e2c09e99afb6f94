package bowstring.spark.read;

import java.util.Map;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;

/** Takes from the query what need not be read: columns, filters, a limit. */
public final class RecordScanBuilder
    implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit {
  private final SourceOptions options;
  private final PushedFilters filters = new PushedFilters();
  private StructType schema;
  private long limit = ReadSettings.UNLIMITED;

  /** A scan of all records, with the table's columns, until told otherwise. */
  public RecordScanBuilder(Map<String, String> options, StructType schema) {
    this.options = new SourceOptions(options);
    this.schema = schema;
  }

  @Override
  public void pruneColumns(StructType required) {
    schema = required;
  }

  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    return filters.push(predicates);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return filters.pushed();
  }

  @Override
  public boolean pushLimit(int rows) {
    limit = rows;
    return true;
  }

  @Override
  public boolean isPartiallyPushed() {
    return true; // each task stops at the limit, Spark takes as many from all of them
  }

  @Override
  public Scan build() {
    return new RecordScan(options, schema, filters, limit);
  }
}
