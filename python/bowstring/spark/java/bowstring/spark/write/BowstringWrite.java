package bowstring.spark.write;

import bowstring.spark.DriverFailure;
import bowstring.spark.wire.ClusterClient;
import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/**
 * A write to topics, as a batch or as a stream: at least once.
 *
 * <p>A task that returns has every record acknowledged, so there is nothing to commit for the job. As with Spark's own
 * Kafka sink, a task that runs again writes its rows again.
 */
final class BowstringWrite implements Write, BatchWrite, StreamingWrite {
  private final SinkOptions options;
  private final RowLayout layout;

  BowstringWrite(SinkOptions options, RowLayout layout) {
    this.options = options;
    this.layout = layout;
  }

  private record Factory(SinkOptions options, RowLayout layout)
      implements DataWriterFactory, StreamingDataWriterFactory {
    private static final long serialVersionUID = 1L;

    @Override
    public DataWriter<InternalRow> createWriter(int partitionId, long taskId) {
      return new RowWriter(options, layout, false);
    }

    @Override
    public DataWriter<InternalRow> createWriter(int partitionId, long taskId, long epochId) {
      return new RowWriter(options, layout, true);
    }
  }

  @Override
  public BatchWrite toBatch() {
    return reached();
  }

  @Override
  public StreamingWrite toStreaming() {
    return reached();
  }

  /**
   * Checks that a broker is available, so that the write fails here with one sentence instead of in every task with a
   * stack trace.
   */
  private BowstringWrite reached() {
    try {
      new ClusterClient(options.client).reach("kafka.max.block.ms", options.maxBlockMs);
    } catch (IOException failed) {
      throw DriverFailure.of(failed);
    }
    return this;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    return new Factory(options, layout);
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return new Factory(options, layout);
  }

  @Override
  public boolean useCommitCoordinator() {
    return false;
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    // Every task has waited for its acknowledgements.
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    // Acknowledged records stay: at least once.
  }

  @Override
  public void commit(long epochId, WriterCommitMessage[] messages) {
    commit(messages);
  }

  @Override
  public void abort(long epochId, WriterCommitMessage[] messages) {
    abort(messages);
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return WriteMetrics.declared();
  }

  @Override
  public String description() {
    return "bowstring columnar sink, " + (options.topic == null ? "topics by column" : "topic " + options.topic);
  }

  @Override
  public String toString() {
    return description();
  }
}
