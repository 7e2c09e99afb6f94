package bowstring.spark.read;

import bowstring.spark.audit.CountAccumulator;
import bowstring.spark.wire.TopicPartition;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads an offset range and returns the aggregates over it: one row, or none for a group without records. */
final class AggregateReader implements PartitionReader<InternalRow> {
  private final PushedAggregates aggregates;
  private final TopicPartition partition;
  private final ColumnarRecordReader records;
  private final List<String> columns;
  private final long[] least;
  private final long[] greatest;
  private long count;
  private boolean isDone;

  AggregateReader(RecordPartition input, ReadSettings settings, PushedAggregates aggregates, CountAccumulator audit)
      throws IOException {
    this.aggregates = aggregates;
    this.partition = input.range().partition();
    this.records = new ColumnarRecordReader(input, settings, audit);
    this.columns = List.of(settings.schema().fieldNames());
    this.least = new long[columns.size()];
    this.greatest = new long[columns.size()];
    Arrays.fill(least, Long.MAX_VALUE);
    Arrays.fill(greatest, Long.MIN_VALUE);
  }

  @Override
  public boolean next() throws IOException {
    if (isDone) {
      return false;
    }
    while (records.next()) {
      ColumnarBatch batch = records.get();
      count += batch.numRows();
      for (int i = 0; i < least.length; i++) {
        extend(i, batch.column(i), batch.numRows());
      }
    }
    isDone = true;
    return count > 0 || !aggregates.isGrouped();
  }

  private void extend(int column, ColumnVector values, int rows) {
    long low = least[column];
    long high = greatest[column];
    for (int row = 0; row < rows; row++) {
      long value = values.getLong(row);
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    least[column] = low;
    greatest[column] = high;
  }

  @Override
  public InternalRow get() {
    List<String> groups = aggregates.groups();
    List<PushedAggregates.Function> functions = aggregates.functions();
    Object[] row = new Object[groups.size() + functions.size()];
    for (int i = 0; i < groups.size(); i++) {
      row[i] = groups.get(i).equals("topic") ? UTF8String.fromString(partition.topic()) : partition.partition();
    }
    for (int i = 0; i < functions.size(); i++) {
      row[groups.size() + i] = value(functions.get(i));
    }
    return new GenericInternalRow(row);
  }

  private Object value(PushedAggregates.Function function) {
    if (function.kind() == PushedAggregates.Kind.COUNT) {
      return count;
    }
    if (count == 0) {
      return null;
    }
    if (function.type() == DataTypes.IntegerType) {
      return partition.partition();
    }
    int column = columns.indexOf(function.column());
    return function.kind() == PushedAggregates.Kind.MIN ? least[column] : greatest[column];
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return records.currentMetricsValues();
  }

  @Override
  public void close() throws IOException {
    records.close();
  }
}
