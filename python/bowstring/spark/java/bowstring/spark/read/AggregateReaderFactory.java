package bowstring.spark.read;

import bowstring.spark.audit.CountAccumulator;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** Creates the readers of queries whose aggregates were pushed down. */
record AggregateReaderFactory(ReadSettings settings, PushedAggregates aggregates, CountAccumulator audit)
    implements PartitionReaderFactory {
  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    try {
      return new AggregateReader((RecordPartition) partition, settings, aggregates, audit);
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }
}
