package bowstring.spark.read;

import java.util.Map;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;

/** Accepts from the query what limits the read: columns, filters, a limit; or all its records, for some aggregates. */
public final class RecordScanBuilder implements ScanBuilder, SupportsPushDownRequiredColumns,
    SupportsPushDownV2Filters, SupportsPushDownLimit, SupportsPushDownAggregates {
  private final SourceOptions options;
  private final PushedFilters filters = new PushedFilters();
  private StructType schema;
  private PushedAggregates aggregates;
  private long limit = ReadSettings.UNLIMITED;

  /** A scan of all records with the table's columns, unless limited. */
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

  /** Spark asks only if no filter is left for it to check. */
  @Override
  public boolean pushAggregation(Aggregation wanted) {
    aggregates = options.pushDownAggregate() ? PushedAggregates.of(wanted) : null;
    return aggregates != null;
  }

  /** Whether all records of each group are in one task, so that Spark need not merge. */
  @Override
  public boolean supportCompletePushDown(Aggregation wanted) {
    PushedAggregates asked = PushedAggregates.of(wanted);
    return asked != null && asked.groups().contains("partition")
        && (asked.groups().contains("topic") || options.subscription().isOfOneTopic())
        && options.minPartitions() == null && options.maxRecordsPerPartition() == null;
  }

  @Override
  public boolean pushLimit(int rows) {
    if (aggregates != null) {
      return false; // a task has one row then
    }
    limit = rows;
    return true;
  }

  @Override
  public boolean isPartiallyPushed() {
    return true; // each task stops at the limit, and Spark applies it to all of them
  }

  @Override
  public Scan build() {
    return new RecordScan(options, schema, filters, aggregates, limit);
  }
}
