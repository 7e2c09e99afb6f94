package bowstring.spark.read;

import bowstring.spark.audit.CountAccumulator;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Creates the readers in the tasks: columnar ones, or row readers for real-time mode. */
record RecordReaderFactory(ReadSettings settings, boolean realTime, CountAccumulator audit)
    implements PartitionReaderFactory {
  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return !realTime;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    try {
      return new RealTimeReader((RecordPartition) partition, settings, audit);
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    try {
      return new ColumnarRecordReader((RecordPartition) partition, settings, audit);
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }
}
