package bowstring.spark.write;

import bowstring.spark.values.ValueEncoder;
import bowstring.spark.wire.OpenTransaction;
import bowstring.spark.wire.TopicPartition;
import bowstring.spark.write.once.Attempt;
import bowstring.spark.write.once.Coordination;
import bowstring.spark.write.once.Written;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ScheduledFuture;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * One task's writer: each row goes to its partition's open batch; a full batch is sealed and sent.
 *
 * <p>With exactly once, the first row begins a transaction, which the driver ends. If the batch is decided already, all
 * rows are dropped: they are in the topic.
 */
final class RowWriter implements DataWriter<InternalRow> {
  private final SinkOptions options;
  private final RowLayout layout;
  private final BufferPool pool = new BufferPool();
  private final WriteMetrics metrics = new WriteMetrics();
  private final BatchSender sender;
  private final Map<UTF8String, TopicBatches> topics = new HashMap<>();
  private final RowRecord record = new RowRecord();
  private TopicBatches topic;

  /** Whether the present row may go to any partition. */
  private boolean anywhere;

  /** Null if keys are bytes. */
  private final TopicEncoders keys;

  /** Null if values are bytes. */
  private final TopicEncoders values;

  /** Null without exactly once. */
  private final Attempt attempt;

  /** Whether a transaction has to begin before the next row. */
  private boolean begins;

  private boolean isDecided;

  private final ScheduledFuture<?> linger;
  private Exception lingerFailure;
  private boolean closed;

  /**
   * A writer of one task.
   *
   * @param encoding how keys and values are encoded
   * @param attempt the task; null without exactly once
   * @param lingers whether open batches are also sent when no more rows come for some time
   */
  RowWriter(SinkOptions options, RowLayout layout, RowEncoding encoding, Attempt attempt, boolean lingers) {
    this.keys = encoding.keys() == null ? null
        : new TopicEncoders(encoding.keys(), layout.key(), layout.keyType().length());
    this.values = encoding.values() == null ? null
        : new TopicEncoders(encoding.values(), layout.value(), layout.valueType().length());
    this.attempt = attempt;
    this.begins = attempt != null;
    this.options = options;
    this.layout = layout;
    this.sender = new BatchSender(options, pool);
    this.linger = lingers ? Linger.start(this::sendWhatLingers, options.lingerMs) : null;
  }

  @Override
  public void write(InternalRow row) throws IOException {
    if (linger == null) {
      append(row);
      return;
    }
    synchronized (this) {
      rethrow();
      append(row);
    }
  }

  private void begin() throws IOException {
    begins = false;
    isDecided = attempt.batch() != Attempt.NO_BATCH
        && new Coordination(options.client, attempt.write()).isDecided(attempt.batch());
    if (!isDecided) {
      sender.begin(attempt.transactionalId());
    }
  }

  /** Runs on the thread of {@link Linger}: a failure is raised at the task's next row, or at its end. */
  private synchronized void sendWhatLingers() {
    if (closed || lingerFailure != null) {
      return;
    }
    try {
      sendAll();
      sender.advance();
    } catch (IOException | RuntimeException failed) {
      lingerFailure = failed;
    }
  }

  private void rethrow() throws IOException {
    if (lingerFailure instanceof RuntimeException failed) {
      throw failed;
    }
    if (lingerFailure != null) {
      throw (IOException) lingerFailure;
    }
  }

  private void append(InternalRow row) throws IOException {
    if (begins) {
      begin();
    }
    if (isDecided) {
      return;
    }
    if (layout.topic() >= 0 || topic == null) {
      topic = topic(row);
    }
    if (keys == null) {
      record.key(row, layout.key(), layout.keyIsString());
    }
    if (values == null) {
      record.value(row, layout.value(), layout.valueIsString());
    }
    record.headers = layout.headers() < 0 || row.isNullAt(layout.headers()) ? null : row.getArray(layout.headers());
    if (record.headers != null) {
      checkHeaders();
    }
    if (keys != null) {
      encodeKey(row);
    }
    if (values != null) {
      encodeValue(row);
    }
    long bound = RecordBatch.sizeBound(record);
    if (bound + RecordBatch.HEADER_BYTES > options.maxRequestBytes) {
      checkSize(bound);
    }
    int partition = partition(row);
    RecordBatch batch = topic.open[partition];
    if (batch == null || !batch.hasRoom(bound, options.batchBytes)) {
      batch = next(partition, batch, bound);
    } else if (batch.growth(bound) > 0) {
      batch = withinMemory(partition, batch, bound);
    }
    metrics.bytes += batch.append(record, bound, System.currentTimeMillis());
    metrics.records++;
  }

  private void encodeKey(InternalRow row) {
    ValueEncoder encoder = keys.encode(row, topic.key, record);
    if (encoder == null) {
      record.nullKey();
    } else {
      record.key(encoder.bytes(), encoder.size());
    }
  }

  private void encodeValue(InternalRow row) {
    ValueEncoder encoder = values.encode(row, topic.key, record);
    if (encoder == null) {
      record.nullValue();
    } else {
      record.value(encoder.bytes(), encoder.size());
    }
  }

  private TopicBatches topic(InternalRow row) throws IOException {
    if (layout.topic() >= 0 && row.isNullAt(layout.topic())) {
      throw new SinkException.NullTopic();
    }
    UTF8String name = layout.topic() >= 0 ? row.getUTF8String(layout.topic()) : UTF8String.fromString(options.topic);
    if (topic != null && topic.key.equals(name)) {
      return topic;
    }
    TopicBatches found = topics.get(name);
    if (found == null) {
      UTF8String kept = name.clone(); // the row's own string is valid only as long as the row
      found = new TopicBatches(kept, sender.partitions(kept.toString()));
      topics.put(kept, found);
    }
    return found;
  }

  private int partition(InternalRow row) {
    anywhere = false;
    if (layout.partition() >= 0 && !row.isNullAt(layout.partition())) {
      int partition = row.getInt(layout.partition());
      if (partition < 0 || partition >= topic.open.length) {
        throw new IllegalArgumentException("Invalid partition given with record: " + partition + " is not in the range "
            + "[0..." + (topic.open.length - 1) + "] of topic " + topic.key + ".");
      }
      return partition;
    }
    if (record.keyLength < 0) {
      anywhere = true;
      return topic.sticky;
    }
    return Murmur2.partition(record.keyBase, record.keyOffset, record.keyLength, topic.open.length);
  }

  private void checkHeaders() {
    for (int i = 0; i < record.headers.numElements(); i++) {
      if (record.headers.isNullAt(i) || record.headers.getStruct(i, 2).isNullAt(0)) {
        throw new NullPointerException("Null header keys are not permitted: header " + i + " of a record for topic "
            + topic.key + " has none.");
      }
    }
  }

  private void checkSize(long bound) throws SinkException {
    long size = bound + RecordBatch.HEADER_BYTES;
    throw new SinkException.RecordTooLarge("The message is " + size + " bytes when serialized which is larger than "
        + options.maxRequestBytes + ", which is the value of the max.request.size configuration: raise "
        + "kafka.max.request.size, and max.message.bytes of topic " + topic.key);
  }

  /** Sends the partition's full batch and opens the next; rows without a key change to another partition. */
  private RecordBatch next(int partition, RecordBatch full, long bound) throws IOException {
    int to = partition;
    if (full != null) {
      send(topic, partition);
      if (partition == topic.sticky) {
        topic.moveOn();
        to = anywhere ? topic.sticky : partition;
      }
    }
    if (topic.open[to] == null) {
      reserve(BufferPool.capacityFor((int) bound));
      topic.open[to] = new RecordBatch(new TopicPartition(topic.key.toString(), to), pool);
      return topic.open[to];
    }
    RecordBatch there = topic.open[to];
    return there.hasRoom(bound, options.batchBytes) ? withinMemory(to, there, bound) : next(to, there, bound);
  }

  private RecordBatch withinMemory(int partition, RecordBatch batch, long bound) throws IOException {
    long more = batch.growth(bound);
    if (more > 0 && pool.usedBytes() + more > options.bufferBytes) {
      return next(partition, batch, bound);
    }
    return batch;
  }

  /** Waits until there is memory for a buffer: everything open is sent and acknowledged. */
  private void reserve(int bytes) throws IOException {
    if (bytes > options.bufferBytes) {
      throw new SinkException.RecordTooLarge("The message needs a buffer of " + bytes + " bytes, which is larger than "
          + "the total memory buffer configured with kafka.buffer.memory (" + options.bufferBytes + "): raise it");
    }
    if (pool.usedBytes() + bytes > options.bufferBytes) {
      sendAll();
      sender.flush();
    }
  }

  private void send(TopicBatches of, int partition) throws IOException {
    RecordBatch batch = of.open[partition];
    of.open[partition] = null;
    try {
      batch.seal(options);
    } catch (IOException | RuntimeException failed) {
      batch.release();
      throw failed;
    }
    sender.send(batch);
  }

  private void sendAll() throws IOException {
    for (TopicBatches each : topics.values()) {
      for (int partition = 0; partition < each.open.length; partition++) {
        if (each.open[partition] != null) {
          send(each, partition);
        }
      }
    }
  }

  @Override
  public synchronized WriterCommitMessage commit() throws IOException {
    rethrow();
    sendAll();
    sender.flush();
    OpenTransaction prepared = sender.prepared();
    sender.done();
    String written = topics.keySet().stream().map(UTF8String::toString).sorted().findFirst().orElse(null);
    return new Written(metrics.records, metrics.bytes, prepared, isDecided, written, sender.counts());
  }

  /** Records that were acknowledged stay in the topics; in a transaction, until somebody aborts it. */
  @Override
  public void abort() {
    // close() follows and drops what was not sent.
  }

  @Override
  public synchronized void close() throws IOException {
    closed = true;
    if (linger != null) {
      linger.cancel(false);
    }
    for (TopicBatches each : topics.values()) {
      for (int partition = 0; partition < each.open.length; partition++) {
        if (each.open[partition] != null) {
          each.open[partition].release();
          each.open[partition] = null;
        }
      }
    }
    try {
      sender.close();
    } finally {
      pool.close();
    }
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return metrics.current();
  }
}
