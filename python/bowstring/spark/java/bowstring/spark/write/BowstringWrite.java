package bowstring.spark.write;

import bowstring.spark.DriverFailure;
import bowstring.spark.audit.CountReports;
import bowstring.spark.audit.WindowCounts;
import bowstring.spark.wire.ClusterClient;
import bowstring.spark.write.once.Attempt;
import bowstring.spark.write.once.Coordination;
import bowstring.spark.write.once.Ends;
import bowstring.spark.write.once.MicroBatches;
import bowstring.spark.write.once.Written;
import java.io.IOException;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
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
 * A write to topics, as a batch or as a stream: at least once, or exactly once.
 *
 * <p>A task that returns has every record acknowledged, so at least once there is nothing to commit for the job. As with
 * Spark's own Kafka sink, a task that runs again writes its rows again. With exactly once, each task has sent in a
 * transaction, which is committed here ({@link Ends}).
 */
final class BowstringWrite implements Write, BatchWrite, StreamingWrite {
  private final SinkOptions options;
  private final RowLayout layout;

  private final RowEncoding encoding;

  /** Of the streaming query, from its checkpoint; or of this batch job. */
  private final String id;

  BowstringWrite(SinkOptions options, RowLayout layout, RowEncoding encoding, String id) {
    this.options = options;
    this.layout = layout;
    this.encoding = encoding;
    this.id = id;
  }

  private record Factory(SinkOptions options, RowLayout layout, RowEncoding encoding, String id)
      implements DataWriterFactory, StreamingDataWriterFactory {
    private static final long serialVersionUID = 1L;

    @Override
    public DataWriter<InternalRow> createWriter(int partitionId, long taskId) {
      return new RowWriter(options, layout, encoding, attempt(Attempt.NO_BATCH, partitionId), false);
    }

    @Override
    public DataWriter<InternalRow> createWriter(int partitionId, long taskId, long epochId) {
      return new RowWriter(options, layout, encoding, attempt(epochId, partitionId), true);
    }

    private Attempt attempt(long batch, int partition) {
      return options.exactlyOnce ? new Attempt(id, batch, partition, TaskContext.get().attemptNumber()) : null;
    }
  }

  @Override
  public BatchWrite toBatch() {
    return reached();
  }

  @Override
  public StreamingWrite toStreaming() {
    if (options.exactlyOnce) {
      onDriver(coordination -> MicroBatches.require(id));
    }
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
    if (options.topic != null) {
      encoding.prepare(options.topic);
    }
    return this;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    return new Factory(options, layout, encoding, id);
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return new Factory(options, layout, encoding, id);
  }

  @Override
  public boolean useCommitCoordinator() {
    return false;
  }

  /** A step of the driver with the brokers. */
  @FunctionalInterface
  private interface Step {
    void take(Coordination coordination) throws IOException;
  }

  private void onDriver(Step step) {
    try {
      step.take(new Coordination(options.client, id));
    } catch (IOException failed) {
      throw DriverFailure.of(failed);
    }
  }

  /** At least once, every task has waited for its acknowledgements, and acknowledged records stay. */
  @Override
  public void commit(WriterCommitMessage[] messages) {
    if (options.exactlyOnce) {
      onDriver(coordination -> Ends.commitJob(coordination, messages));
    }
    count(id, messages);
  }

  /**
   * Reports the counts of a batch or job to the audit, if there is one. What is exactly once is reported before Spark
   * notes the batch: a batch that was committed does not run again, so that nobody counts it later.
   */
  private void count(String unit, WriterCommitMessage[] messages) {
    if (options.audit == null) {
      return;
    }
    WindowCounts total = new WindowCounts(options.audit.windowMs());
    for (WriterCommitMessage each : messages) {
      if (each instanceof Written done && done.counts() != null) {
        total.addAll(done.counts());
      }
    }
    CountReports.reportAtEnd(SparkContext.getOrCreate());
    CountReports reports = CountReports.of(options.audit);
    reports.put(unit, total);
    if (options.exactlyOnce) {
      reports.sendNow();
    }
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    abort(Attempt.NO_BATCH, messages);
  }

  @Override
  public void commit(long epochId, WriterCommitMessage[] messages) {
    if (options.exactlyOnce) {
      onDriver(coordination -> Ends.commitBatch(coordination, epochId, messages));
    }
    count(id + "." + epochId, messages);
  }

  @Override
  public void abort(long epochId, WriterCommitMessage[] messages) {
    if (options.exactlyOnce) {
      onDriver(coordination -> Ends.abort(coordination, epochId, messages));
    }
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
