package bowstring.spark.read;

import bowstring.spark.wire.TopicPartition;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The part of a query's filters that limits which records are fetched.
 *
 * <p>Conditions on topic, partition and offset (comparison with a constant, IN) are applied exactly. A lower bound of
 * the timestamp moves the start to the first record that late, and skips older batches; because records need not be in
 * order of time, Spark checks it again. An upper bound cannot be used: a matching record may follow one that does not
 * match.
 */
final class PushedFilters {
  private static final Set<String> NEVER_NULL =
      Set.of("topic", "partition", "offset", "timestamp", "timestampType");

  private Set<String> topics;
  private Set<Long> partitions;
  private long minPartition = Long.MIN_VALUE;
  private long maxPartition = Long.MAX_VALUE;
  private long minOffset;
  private long endOffset = Long.MAX_VALUE;
  private Set<Long> offsets;
  private long minTimestampMs = ReadSettings.ANY_TIMESTAMP;
  private final List<Predicate> pushed = new ArrayList<>();

  /** Takes the predicates that it can apply; returns those that Spark must check. */
  Predicate[] push(Predicate[] predicates) {
    List<Predicate> left = new ArrayList<>();
    for (Predicate predicate : predicates) {
      Use use = take(predicate);
      if (use != Use.NONE) {
        pushed.add(predicate);
      }
      if (use != Use.EXACT) {
        left.add(predicate);
      }
    }
    return left.toArray(new Predicate[0]);
  }

  private enum Use {
    NONE,
    INEXACT,
    EXACT
  }

  private Use take(Predicate predicate) {
    Expression[] children = predicate.children();
    if (predicate.name().equals("IS_NOT_NULL") && children[0] instanceof NamedReference column
        && column.fieldNames().length == 1 && NEVER_NULL.contains(column.fieldNames()[0])) {
      return Use.EXACT;
    }
    if (children.length < 2 || !(children[0] instanceof NamedReference column) || column.fieldNames().length != 1) {
      return Use.NONE;
    }
    List<Object> values = new ArrayList<>();
    for (int i = 1; i < children.length; i++) {
      if (!(children[i] instanceof Literal<?> literal) || literal.value() == null) {
        return Use.NONE;
      }
      values.add(literal.value());
    }
    String operator = predicate.name();
    return switch (column.fieldNames()[0]) {
      case "topic" -> takeTopic(operator, values);
      case "partition" -> takePartition(operator, values);
      case "offset" -> takeOffset(operator, values);
      case "timestamp" -> takeTimestamp(operator, values.get(0));
      default -> Use.NONE;
    };
  }

  private static boolean isEquality(String operator) {
    return operator.equals("=") || operator.equals("<=>") || operator.equals("IN");
  }

  private Use takeTopic(String operator, List<Object> values) {
    if (!isEquality(operator) || !values.stream().allMatch(v -> v instanceof UTF8String)) {
      return Use.NONE;
    }
    Set<String> names = new HashSet<>();
    values.forEach(value -> names.add(value.toString()));
    if (topics == null) {
      topics = names;
    } else {
      topics.retainAll(names);
    }
    return Use.EXACT;
  }

  private static boolean areWhole(List<Object> values) {
    return values.stream().allMatch(v -> v instanceof Integer || v instanceof Long || v instanceof Short);
  }

  private static Set<Long> both(Set<Long> some, List<Object> values) {
    Set<Long> numbers = new HashSet<>();
    values.forEach(value -> numbers.add(((Number) value).longValue()));
    if (some != null) {
      numbers.retainAll(some);
    }
    return numbers;
  }

  private Use takePartition(String operator, List<Object> values) {
    if (!areWhole(values)) {
      return Use.NONE;
    }
    long value = ((Number) values.get(0)).longValue();
    switch (operator) {
      case "=", "<=>", "IN" -> partitions = both(partitions, values);
      case ">" -> minPartition = Math.max(minPartition, value == Long.MAX_VALUE ? value : value + 1);
      case ">=" -> minPartition = Math.max(minPartition, value);
      case "<" -> maxPartition = Math.min(maxPartition, value == Long.MIN_VALUE ? value : value - 1);
      case "<=" -> maxPartition = Math.min(maxPartition, value);
      default -> {
        return Use.NONE;
      }
    }
    return Use.EXACT;
  }

  private Use takeOffset(String operator, List<Object> values) {
    if (!areWhole(values)) {
      return Use.NONE;
    }
    long value = ((Number) values.get(0)).longValue();
    if (value == Long.MAX_VALUE) {
      return Use.NONE; // no such offset, and no room for the next one
    }
    switch (operator) {
      case "=", "<=>" -> {
        minOffset = Math.max(minOffset, value);
        endOffset = Math.min(endOffset, value + 1);
      }
      case "IN" -> {
        offsets = both(offsets, values);
        minOffset = Math.max(minOffset, offsets.stream().mapToLong(Long::longValue).min().orElse(Long.MAX_VALUE));
        endOffset = Math.min(endOffset, offsets.stream().mapToLong(Long::longValue).max().orElse(-1) + 1);
        return Use.INEXACT; // offsets between them are read, too
      }
      case ">" -> minOffset = Math.max(minOffset, value + 1);
      case ">=" -> minOffset = Math.max(minOffset, value);
      case "<" -> endOffset = Math.min(endOffset, value);
      case "<=" -> endOffset = Math.min(endOffset, value + 1);
      default -> {
        return Use.NONE;
      }
    }
    return Use.EXACT;
  }

  private Use takeTimestamp(String operator, Object value) {
    if (!(value instanceof Long micros) || !(operator.equals("=") || operator.equals(">") || operator.equals(">="))) {
      return Use.NONE;
    }
    minTimestampMs = Math.max(minTimestampMs, Math.floorDiv(micros, 1000)); // a little early; Spark checks
    return Use.INEXACT;
  }

  Predicate[] pushed() {
    return pushed.toArray(new Predicate[0]);
  }

  long minTimestampMs() {
    return minTimestampMs;
  }

  boolean selects(TopicPartition partition) {
    int number = partition.partition();
    return (topics == null || topics.contains(partition.topic()))
        && (partitions == null || partitions.contains((long) number))
        && number >= minPartition && number <= maxPartition;
  }

  /** The part of a range whose offsets match. */
  OffsetRange narrow(OffsetRange range) {
    long start = Math.max(range.start(), minOffset);
    return new OffsetRange(range.partition(), start, Math.max(start, Math.min(range.end(), endOffset)));
  }

  @Override
  public String toString() {
    return pushed.toString();
  }
}
