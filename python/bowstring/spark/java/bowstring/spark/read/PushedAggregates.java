package bowstring.spark.read;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Aggregates that the tasks compute themselves, with a row for each task instead of one for each record.
 *
 * <p>The number of records, and minimum and maximum of partition, offset and timestamp; for all records, or grouped by
 * topic and partition. Hidden records, and records outside the range, do not count, because the records come through
 * the same reader.
 *
 * @param groups columns grouped by: topic, partition
 * @param functions in the order of Spark's columns
 */
record PushedAggregates(List<String> groups, List<Function> functions) implements Serializable {
  private static final Set<String> GROUPS = Set.of("topic", "partition");
  private static final Set<String> NEVER_NULL = Set.of("topic", "partition", "offset", "timestamp", "timestampType");
  private static final Set<String> ORDERED = Set.of("partition", "offset", "timestamp");

  /** What is computed. */
  enum Kind {
    COUNT,
    MIN,
    MAX
  }

  /**
   * One aggregate.
   *
   * @param column null for a count of records
   */
  record Function(Kind kind, String column) implements Serializable {
    DataType type() {
      return kind == Kind.COUNT ? DataTypes.LongType : typeOf(column);
    }

    @Override
    public String toString() {
      return kind + "(" + (column == null ? "*" : column) + ")";
    }
  }

  private static DataType typeOf(String column) {
    return switch (column) {
      case "topic" -> DataTypes.StringType;
      case "partition" -> DataTypes.IntegerType;
      case "timestamp" -> DataTypes.TimestampType;
      default -> DataTypes.LongType;
    };
  }

  /** The aggregates of a query; null if one of them cannot be pushed down. */
  static PushedAggregates of(Aggregation wanted) {
    List<String> groups = new ArrayList<>();
    for (Expression group : wanted.groupByExpressions()) {
      String column = column(group);
      if (column == null || !GROUPS.contains(column)) {
        return null;
      }
      groups.add(column);
    }
    List<Function> functions = new ArrayList<>();
    for (AggregateFunc aggregate : wanted.aggregateExpressions()) {
      Function function = function(aggregate);
      if (function == null) {
        return null;
      }
      functions.add(function);
    }
    return new PushedAggregates(groups, functions);
  }

  private static Function function(AggregateFunc aggregate) {
    if (aggregate instanceof CountStar) {
      return new Function(Kind.COUNT, null);
    }
    if (aggregate instanceof Count count && !count.isDistinct()) {
      String column = column(count.column());
      return column != null && NEVER_NULL.contains(column) ? new Function(Kind.COUNT, null) : null;
    }
    if (aggregate instanceof Min min) {
      return ordered(Kind.MIN, column(min.column()));
    }
    return aggregate instanceof Max max ? ordered(Kind.MAX, column(max.column())) : null;
  }

  private static Function ordered(Kind kind, String column) {
    return column != null && ORDERED.contains(column) ? new Function(kind, column) : null;
  }

  private static String column(Expression expression) {
    return expression instanceof NamedReference named && named.fieldNames().length == 1 ? named.fieldNames()[0] : null;
  }

  boolean isGrouped() {
    return !groups.isEmpty();
  }

  /** Columns of the rows: the groups, then the aggregates. */
  StructType schema() {
    StructType schema = new StructType();
    for (String group : groups) {
      schema = schema.add(group, typeOf(group));
    }
    for (Function function : functions) {
      schema = schema.add(function.toString(), function.type());
    }
    return schema;
  }

  /** Columns of the records that must be read; for a count, none. */
  StructType needed() {
    Set<String> names = new TreeSet<>();
    for (Function function : functions) {
      if (function.column() != null && !function.column().equals("partition")) {
        names.add(function.column());
      }
    }
    StructType needed = new StructType();
    for (String name : names) {
      needed = needed.add(name, typeOf(name));
    }
    return needed;
  }

  @Override
  public String toString() {
    return "PushedAggregates: " + functions + (isGrouped() ? ", PushedGroupBy: " + groups : "");
  }
}
