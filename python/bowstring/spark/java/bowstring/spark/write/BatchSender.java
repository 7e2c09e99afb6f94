package bowstring.spark.write;

import bowstring.spark.audit.WindowCounts;
import bowstring.spark.wire.ApiKey;
import bowstring.spark.wire.ClusterClient;
import bowstring.spark.wire.Connection;
import bowstring.spark.wire.ErrorCode;
import bowstring.spark.wire.HostPort;
import bowstring.spark.wire.Metadata;
import bowstring.spark.wire.OpenTransaction;
import bowstring.spark.wire.RequestWriter;
import bowstring.spark.wire.ResponseReader;
import bowstring.spark.wire.TopicPartition;
import bowstring.spark.wire.WireException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends sealed batches to their partitions' leaders: several requests in flight, each partition in order.
 *
 * <p>A batch that fails with a retriable error is sent again with its sequence number, until kafka.delivery.timeout.ms
 * is over; any other error ends the task. In a transaction, so does the loss of a producer's state. Everything runs on the task's thread: answers are read when the limit of
 * requests in flight is reached, and in {@link #flush}.
 */
final class BatchSender implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(BatchSender.class);

  private final SinkOptions options;
  private final ClusterClient cluster;
  private final Leaders leaders;
  private final BufferPool pool;
  private final Map<TopicPartition, PartitionQueue> queues = new LinkedHashMap<>();
  private final Map<HostPort, BrokerLink> links = new HashMap<>();
  private ProducerIdentity identity;
  private UUID identityTopic;
  private TaskTransaction transaction;
  private boolean sequenceLost;

  /** What was acknowledged; null without an audit. */
  private final WindowCounts counts;

  BatchSender(SinkOptions options, BufferPool pool) {
    this.options = options;
    this.cluster = new ClusterClient(options.client);
    this.leaders = new Leaders(cluster);
    this.pool = pool;
    this.counts = options.audit == null ? null : new WindowCounts(options.audit.windowMs());
  }

  /** The records that were acknowledged, by window; null without an audit. */
  WindowCounts counts() {
    return counts;
  }

  /**
   * Number of partitions of a topic. A broker that creates topics on first use creates it now.
   *
   * @throws WireException if it does not exist within kafka.max.block.ms
   */
  int partitions(String topic) throws IOException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(options.maxBlockMs);
    while (true) {
      Metadata.Topic found = cluster.metadataForWriting(topic).topics().get(topic);
      if (found != null && !found.partitions().isEmpty()) {
        return found.partitions().lastKey() + 1;
      }
      if (System.nanoTime() >= deadline) {
        throw new SinkException("Topic " + topic + " not present in metadata after " + options.maxBlockMs
            + " ms (kafka.max.block.ms): create it, or check its name");
      }
      ClusterClient.pause(Math.max(1, options.client.retryBackoffMs()));
    }
  }

  /** Makes everything sent from now on part of a transaction, which begins. */
  void begin(String transactionalId) throws IOException {
    transaction = TaskTransaction.begin(transactionalId, options, cluster);
    identity = ProducerIdentity.of(transaction.opened());
  }

  /** The transaction that everything was sent in, after {@link #flush}; null if there is none. */
  OpenTransaction prepared() {
    return transaction == null ? null : transaction.opened();
  }

  /** Takes a sealed batch and sends it as soon as its partition's order allows. */
  void send(RecordBatch batch) throws IOException {
    if (transaction != null) {
      transaction.join(batch.partition);
    }
    if (options.idempotent) {
      if (identity == null) {
        identityTopic = cluster.topicId(batch.partition.topic());
        identity = ProducerIdentity.take(identityTopic, cluster);
      }
      identity.stamp(batch);
    } else {
      batch.stamp(-1, (short) -1, -1);
    }
    queues.computeIfAbsent(batch.partition, PartitionQueue::new).batches.addLast(batch);
    pump();
  }

  /** Sends delayed batches again when they are due. */
  void advance() throws IOException {
    pump();
  }

  /** Waits until everything is acknowledged. */
  void flush() throws IOException {
    while (hasUnacknowledged()) {
      pump();
      BrokerLink busiest = busiest();
      if (busiest != null) {
        receive(busiest);
      } else if (hasUnacknowledged()) {
        waitForRetry();
      }
    }
  }

  private boolean hasUnacknowledged() {
    for (PartitionQueue queue : queues.values()) {
      if (!queue.batches.isEmpty()) {
        return true;
      }
    }
    return false;
  }

  /** Sends all batches that may be sent. */
  private void pump() throws IOException {
    while (true) {
      if (sequenceLost) {
        restartSequences();
      }
      Map<TopicPartition, RecordBatch> chosen = new LinkedHashMap<>();
      HostPort leader = choose(chosen);
      if (leader == null) {
        return;
      }
      BrokerLink link = link(leader, chosen);
      if (link != null && link.requestsInFlight() >= options.maxInFlight) {
        receive(link);
      } else if (link != null) {
        transmit(link, chosen);
      }
    }
  }

  /** Chooses batches of one leader that fit into one request, one for each partition; null if there are none. */
  private HostPort choose(Map<TopicPartition, RecordBatch> chosen) throws IOException {
    HostPort leader = null;
    long bytes = 0;
    long now = System.nanoTime();
    leaders.refresh();
    for (PartitionQueue queue : queues.values()) {
      RecordBatch batch = queue.sendable(now);
      if (batch == null || !chosen.isEmpty() && bytes + batch.sizeBytes() > options.maxRequestBytes) {
        continue;
      }
      HostPort leads = leader(queue);
      if (leads == null || leader != null && !leader.equals(leads)) {
        continue;
      }
      leader = leads;
      bytes += batch.sizeBytes();
      chosen.put(queue.partition, batch);
    }
    return leader;
  }

  /** The partition's leader, or null after scheduling a retry. */
  private HostPort leader(PartitionQueue queue) throws IOException {
    try {
      return leaders.of(queue.partition, queues.keySet());
    } catch (WireException failed) {
      if (!failed.isRetriable()) {
        throw failed;
      }
      retryLater(queue, failed);
      return null;
    }
  }

  private BrokerLink link(HostPort leader, Map<TopicPartition, RecordBatch> chosen) throws IOException {
    BrokerLink link = links.get(leader);
    if (link != null) {
      return link;
    }
    try {
      link = new BrokerLink(leader, options.client);
      links.put(leader, link);
      return link;
    } catch (WireException.BrokerUnreachable | WireException.TimedOut unreachable) {
      for (TopicPartition partition : chosen.keySet()) {
        retryLater(queues.get(partition), unreachable);
      }
      return null;
    }
  }

  private void transmit(BrokerLink link, Map<TopicPartition, RecordBatch> chosen) throws IOException {
    Map<String, List<RecordBatch>> byTopic = new LinkedHashMap<>();
    for (RecordBatch batch : chosen.values()) {
      byTopic.computeIfAbsent(batch.partition.topic(), topic -> new ArrayList<>()).add(batch);
      queues.get(batch.partition).sent(batch);
    }
    link.sent(new ArrayList<>(chosen.values()));
    try {
      Connection connection = link.connection();
      RequestWriter request = transaction == null ? connection.request(ApiKey.PRODUCE)
          : connection.request(ApiKey.PRODUCE, transaction.produceVersion(connection));
      request.string(transaction == null ? null : transaction.id());
      request.int16(options.acks).int32(options.client.requestTimeoutMs()).array(byTopic.size());
      for (Map.Entry<String, List<RecordBatch>> topic : byTopic.entrySet()) {
        request.string(topic.getKey()).array(topic.getValue().size());
        for (RecordBatch batch : topic.getValue()) {
          request.int32(batch.partition.partition()).records(batch.contents()).tags();
        }
        request.tags();
      }
      request.tags();
      if (options.acks == 0) {
        connection.sendOneWay(request);
        link.answered().forEach(batch -> acknowledged(batch, ProduceResponse.NO_TIME));
      } else {
        connection.send(request);
      }
    } catch (WireException.BrokerUnreachable | WireException.TimedOut lost) {
      lose(link, lost);
    }
  }

  /** Reads one answer and handles it. */
  private void receive(BrokerLink link) throws IOException {
    Map<TopicPartition, Short> errors = new HashMap<>();
    Map<TopicPartition, String> messages = new HashMap<>();
    Map<TopicPartition, Long> times = new HashMap<>();
    try {
      ProduceResponse.read(link.connection().receive(), errors, messages, times);
    } catch (WireException.BrokerUnreachable | WireException.TimedOut lost) {
      lose(link, lost);
      return;
    }
    for (RecordBatch batch : link.answered()) {
      Short code = errors.get(batch.partition);
      if (code == null) {
        throw new WireException.MalformedResponse("The Produce response of broker " + link.address + " lacks "
            + batch.partition + ": is this a Kafka listener?");
      }
      if (code == 0 || ErrorCode.of(code) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER) {
        acknowledged(batch, times.getOrDefault(batch.partition, ProduceResponse.NO_TIME));
      } else {
        refused(batch, code, messages.get(batch.partition));
      }
    }
  }

  private void acknowledged(RecordBatch batch, long logAppendTimeMs) {
    if (counts != null) {
      batch.count(counts, logAppendTimeMs);
    }
    PartitionQueue queue = queues.get(batch.partition);
    queue.returned(batch);
    queue.attempts = 0;
    queue.batches.remove(batch);
    batch.release();
  }

  private void refused(RecordBatch batch, short code, String message) throws IOException {
    PartitionQueue queue = queues.get(batch.partition);
    boolean first = queue.batches.peekFirst() == batch;
    queue.returned(batch);
    ErrorCode error = ErrorCode.of(code);
    String doing = "Writing to " + batch.partition + (message == null ? "" : " (" + message + ")");
    IOException failure = new WireException.BrokerError(error, code, doing);
    switch (error) {
      case MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE -> split(queue, batch, failure);
      case OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID, INVALID_PRODUCER_EPOCH -> {
        // For a later batch, the error only follows from an earlier failure; for the first, the broker has lost the
        // sequence.
        if (first && transaction != null) {
          throw failure;
        }
        sequenceLost |= first;
        retryLater(queue, failure);
      }
      default -> {
        if (!error.retriable) {
          throw failure;
        }
        retryLater(queue, failure);
      }
    }
  }

  private void lose(BrokerLink link, WireException lost) throws IOException {
    links.remove(link.address);
    List<PartitionQueue> affected = new ArrayList<>();
    while (link.requestsInFlight() > 0) {
      for (RecordBatch batch : link.answered()) {
        PartitionQueue queue = queues.get(batch.partition);
        queue.returned(batch);
        if (!affected.contains(queue)) {
          affected.add(queue);
        }
      }
    }
    link.close();
    for (PartitionQueue queue : affected) {
      retryLater(queue, lost);
    }
  }

  /** Schedules a partition's batches again after a pause, if there is time left. */
  private void retryLater(PartitionQueue queue, IOException failure) throws IOException {
    leaders.doubt();
    RecordBatch oldest = queue.batches.peekFirst();
    long agedMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - oldest.sealedNanos);
    if (agedMs >= options.deliveryTimeoutMs || queue.attempts >= options.retries) {
      throw new SinkException.DeliveryTimedOut("Expiring " + oldest.records() + " record(s) for " + queue.partition
          + ": " + agedMs + " ms has passed since batch creation, " + queue.attempts + " retries "
          + "(kafka.delivery.timeout.ms=" + options.deliveryTimeoutMs + ", kafka.retries=" + options.retries + "). "
          + failure.getMessage(), failure);
    }
    long pauseMs = Math.min((long) options.client.retryBackoffMs() << Math.min(queue.attempts, 20),
        Math.max(options.client.retryBackoffMaxMs(), options.client.retryBackoffMs()));
    queue.attempts++;
    if (queue.attempts == 1) {
      LOG.warn("{}: a batch failed and is sent again: {}", queue.partition, failure.getMessage());
    }
    queue.retry(System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Math.max(1, pauseMs)));
  }

  private void split(PartitionQueue queue, RecordBatch batch, IOException failure) throws IOException {
    List<RecordBatch> halves = BatchSplitter.halves(batch, pool, options, failure);
    int sequence = batch.baseSequence;
    for (RecordBatch half : halves) {
      if (options.idempotent) {
        identity.stamp(half, sequence);
        sequence = ProducerIdentity.after(sequence, half.records());
      } else {
        half.stamp(-1, (short) -1, -1);
      }
    }
    // In order: later batches have higher sequence numbers.
    List<RecordBatch> order = new ArrayList<>();
    for (RecordBatch each : queue.batches) {
      if (each == batch) {
        order.addAll(halves);
      } else {
        order.add(each);
      }
    }
    queue.batches.clear();
    queue.batches.addAll(order);
    batch.release();
    queue.retry(System.nanoTime());
  }

  /** Gets a new producer id, and gives every remaining batch new sequence numbers. */
  private void restartSequences() throws IOException {
    for (BrokerLink link = busiest(); link != null; link = busiest()) {
      receive(link);
    }
    sequenceLost = false;
    identity.renew(cluster);
    for (PartitionQueue queue : queues.values()) {
      queue.batches.forEach(identity::stamp);
    }
  }

  private BrokerLink busiest() {
    BrokerLink found = null;
    for (BrokerLink link : links.values()) {
      if (link.requestsInFlight() > (found == null ? 0 : found.requestsInFlight())) {
        found = link;
      }
    }
    return found;
  }

  private void waitForRetry() throws IOException {
    long now = System.nanoTime();
    long wait = Long.MAX_VALUE;
    for (PartitionQueue queue : queues.values()) {
      if (!queue.batches.isEmpty()) {
        wait = Math.min(wait, queue.retrying ? queue.retryAtNanos - now : 0);
      }
    }
    if (wait > 0) {
      ClusterClient.pause(TimeUnit.NANOSECONDS.toMillis(wait) + 1);
    }
  }

  /** After {@link #flush}: keeps connections and producer id for the next task. */
  void done() {
    if (identity != null && transaction == null) {
      identity.giveBack(identityTopic);
      identity = null;
    }
  }

  /** Returns connections, or closes those that wait for answers; frees batches that were not sent. */
  @Override
  public void close() throws IOException {
    IOException failed = null;
    for (BrokerLink link : links.values()) {
      try {
        link.close();
      } catch (IOException each) {
        failed = each;
      }
    }
    links.clear();
    for (PartitionQueue queue : queues.values()) {
      queue.batches.forEach(RecordBatch::release);
      queue.batches.clear();
    }
    if (failed != null) {
      throw failed;
    }
  }
}
