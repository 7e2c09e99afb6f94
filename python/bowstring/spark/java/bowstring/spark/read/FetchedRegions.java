package bowstring.spark.read;

import bowstring.spark.decode.AbortedTransactions;
import bowstring.spark.decode.RecordDecoder;
import bowstring.spark.wire.ClientOptions;
import bowstring.spark.wire.ClusterClient;
import bowstring.spark.wire.ConnectionPool;
import bowstring.spark.wire.ErrorCode;
import bowstring.spark.wire.Fetch;
import bowstring.spark.wire.HostPort;
import bowstring.spark.wire.TopicPartition;
import bowstring.spark.wire.WireException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An offset range, fetched over one pooled connection: from the partition's leader, or with kafka.client.rack from the
 * replica that the leader names (KIP-392).
 *
 * <p>The request for the next region is in flight while the current one is decoded. When the leader changes, or a
 * broker disconnects or answers with a retriable error, the leader is looked up again and the request repeated, with
 * growing pauses, until nothing has come for the poll timeout. A replica that fails or lacks an offset is not asked again:
 * the rest of the range comes from the leader.
 */
final class FetchedRegions implements Regions {
  private static final Logger LOG = LoggerFactory.getLogger(FetchedRegions.class);

  /** Requested beyond the expected size of the records, so that one request is usually enough. */
  private static final int FETCH_MARGIN_BYTES = 16 << 10;

  private static final int FIRST_GUESS_RECORD_BYTES = 256;

  /** Mean bytes of a record, by topic, as last seen by this process: a small range requests few bytes. */
  private static final ConcurrentHashMap<String, Integer> RECORD_BYTES = new ConcurrentHashMap<>();

  private final ClientOptions options;
  private final ReadSettings settings;
  private final OffsetRange range;
  private final TopicPartition partition;
  private final ClusterClient cluster;
  private HostPort leader;
  private HostPort nearest; // null: the leader
  private UUID topicId;
  private Fetch fetch;
  private ConnectionPool.Lease lease;
  private long start;
  private long next;
  private int maxBytes;
  private boolean asked;
  private boolean askFailed;
  private boolean prefetch;
  private AbortedTransactions aborted = AbortedTransactions.none();
  private long pauseMs;
  private long fetches;
  private long bytes;
  private long outOfRange;

  FetchedRegions(RecordPartition input, ClientOptions options, ReadSettings settings) {
    this.options = options;
    this.settings = settings;
    this.range = input.range();
    this.partition = range.partition();
    this.cluster = new ClusterClient(options);
    this.leader = input.leader();
    this.topicId = input.topicId();
    this.fetch = new Fetch(partition, topicId, options.isReadCommitted());
    fetch.from(options.rack());
    this.next = range.start();
    this.maxBytes = options.maxPartitionFetchBytes();
    this.pauseMs = options.retryBackoffMs();
    this.prefetch = settings.limit() == ReadSettings.UNLIMITED; // otherwise the next region is usually not needed
  }

  /** Sends requests only in advance(): for real time, where the end is unknown. */
  void withoutPrefetch() {
    prefetch = false;
  }

  @Override
  public boolean advance(int waitMs) throws IOException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
    while (next < range.end()) {
      long leftMs = Math.max(0, TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime()));
      try {
        if (askFailed) {
          lookAgain();
        }
        if (!asked) {
          ask((int) Math.min(leftMs, options.fetchMaxWaitMs()));
        }
        asked = false;
        fetch.receive(lease.connection());
        fetches++;
        if (fetch.error() == ErrorCode.NONE && fetch.preferredReplica() >= 0 && nearest == null) {
          readFrom(fetch.preferredReplica());
        } else if (fetch.error() == ErrorCode.NONE) {
          if (accept()) {
            return true;
          }
        } else if (!recover(fetch.error())) {
          return false;
        }
      } catch (WireException failed) {
        if (!failed.isRetriable() || System.nanoTime() - deadline >= 0) {
          throw failed;
        }
        LOG.info("Reading {} from {} failed: {}. Looking for the leader", partition, source(), failed.getMessage());
        lookAgain();
      }
      if (System.nanoTime() - deadline >= 0) {
        return false;
      }
    }
    return false;
  }

  private void ask(int maxWaitMs) throws IOException {
    if (lease == null) {
      if (leader == null) {
        leader = cluster.leader(partition);
      }
      lease = ConnectionPool.SHARED.borrow(source(), options);
    }
    int recordBytes = RECORD_BYTES.getOrDefault(partition.topic(), FIRST_GUESS_RECORD_BYTES);
    long left = Math.min(range.end() - next, settings.limit());
    long wanted = left > Integer.MAX_VALUE ? maxBytes : Math.min(maxBytes, left * recordBytes + FETCH_MARGIN_BYTES);
    fetch.send(lease.connection(), next, maxWaitMs, options.fetchMinBytes(), (int) wanted,
        Math.addExact(options.requestTimeoutMs(), maxWaitMs));
    asked = true;
  }

  private HostPort source() {
    return nearest != null ? nearest : leader;
  }

  private void readFrom(int brokerId) throws IOException {
    nearest = cluster.metadata(List.of(partition.topic())).brokers().get(brokerId);
    if (nearest == null) {
      stayWithLeader(); // it has just stopped
    }
    giveBack();
  }

  private void stayWithLeader() {
    nearest = null;
    fetch.from(""); // with a rack, the leader would name the replica again
  }

  /** Checks a successful response; returns whether it has at least one complete batch. */
  private boolean accept() throws IOException {
    pauseMs = options.retryBackoffMs();
    if (fetch.length() == 0) {
      return false;
    }
    long end = RecordDecoder.endOffset(fetch.buffer(), fetch.position(), limit());
    if (end < 0) {
      long needed = RecordDecoder.firstBatchBytes(fetch.buffer(), fetch.position(), limit());
      maxBytes = (int) Math.min(Integer.MAX_VALUE - 1024, Math.max(2L * maxBytes, needed));
      return false;
    }
    if (end <= next) {
      throw new WireException.CorruptRecords(
          "Broker " + source() + " sent records of " + partition + " below offset " + end + ", not from offset " + next);
    }
    bytes += fetch.length();
    RECORD_BYTES.put(partition.topic(), (int) Math.min(1 << 20, fetch.length() / (end - next) + 16));
    aborted = AbortedTransactions.none();
    long[] transactions = fetch.abortedTransactions();
    for (int i = 0; i < transactions.length; i += 2) {
      aborted.add(transactions[i], transactions[i + 1]);
    }
    start = next;
    next = end;
    if (prefetch && next < range.end()) {
      try {
        ask(options.fetchMaxWaitMs());
      } catch (WireException failed) {
        LOG.debug("The next request for {} failed and is retried", partition, failed);
        askFailed = true; // the current region is in this connection's buffer, so release it later
      }
    }
    return true;
  }

  /** Handles an error code; returns whether to retry. */
  private boolean recover(ErrorCode error) throws IOException {
    if (nearest != null) {
      LOG.info("Broker {} answers {} for {}: reading from the leader", nearest, error, partition);
      stayWithLeader();
      giveBack();
      return true;
    }
    if (error == ErrorCode.OFFSET_OUT_OF_RANGE) {
      return skipWhatIsGone();
    }
    if (error == ErrorCode.CORRUPT_MESSAGE) {
      throw new WireException.CorruptRecords("The records of " + partition + " at offset " + next + " are damaged on the "
          + "disk of broker " + leader + ": start after them (startingOffsets), or restore the broker's files");
    }
    if (error.isLeaderChange()) {
      if (error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION || error == ErrorCode.UNKNOWN_TOPIC_ID) {
        mustExist();
      }
      lookAgain();
      return true;
    }
    throw fetch.exception(); // advance repeats retriable ones
  }

  private void mustExist() throws IOException {
    boolean exists = cluster.metadata(List.of(partition.topic())).topics().containsKey(partition.topic());
    if (!exists) {
      settings.reportLoss("Topic " + partition.topic() + " was deleted before its offsets " + next + " to " + range.end()
          + " were read");
      next = range.end();
    }
  }

  private boolean skipWhatIsGone() throws IOException {
    outOfRange++;
    long earliest = cluster.listOffsets(List.of(partition), ClusterClient.EARLIEST).get(partition);
    long latest = cluster.listOffsets(List.of(partition), ClusterClient.LATEST).get(partition);
    if (next >= earliest && next <= latest) {
      return true; // the offset is in range again
    }
    settings.reportLoss("Offset " + next + " of " + partition + " is out of range: the partition has offsets " + earliest
        + " to " + latest);
    if (next < earliest && earliest < range.end()) {
      next = earliest;
      return true;
    }
    if (range.end() == Long.MAX_VALUE) {
      next = latest; // in real time, do not wait for truncated records, but read what comes now
      return true;
    }
    next = range.end();
    return false;
  }

  /** Drops connection and leader, and pauses. */
  private void lookAgain() throws IOException {
    askFailed = false;
    if (nearest != null) {
      stayWithLeader();
    }
    giveBack();
    ClusterClient.pause(pauseMs);
    pauseMs = Math.min(Math.max(1, pauseMs * 2), options.retryBackoffMaxMs());
    cluster.forgetLeaders();
    leader = null;
    if (next < range.end()) {
      leader = cluster.leader(partition);
      UUID current = cluster.topicId(partition.topic());
      if (!current.equals(topicId)) {
        settings.reportLoss("Topic " + partition.topic() + " was deleted and created again before its offsets " + next
            + " to " + range.end() + " were read");
        if (range.end() == Long.MAX_VALUE) {
          next = cluster.listOffsets(List.of(partition), ClusterClient.EARLIEST).get(partition);
        }
        topicId = current;
        fetch = new Fetch(partition, topicId, options.isReadCommitted());
      }
    }
  }

  private void giveBack() throws IOException {
    asked = false;
    ConnectionPool.Lease returned = lease;
    lease = null;
    if (returned != null) {
      returned.close();
    }
  }

  @Override
  public ByteBuffer buffer() {
    return fetch.buffer();
  }

  @Override
  public int position() {
    return fetch.position();
  }

  @Override
  public int limit() {
    return fetch.position() + fetch.length();
  }

  @Override
  public boolean hasSlack() {
    return true; // connections receive into memory with slack behind it
  }

  @Override
  public AbortedTransactions aborted() {
    return aborted;
  }

  @Override
  public long startOffset() {
    return start;
  }

  @Override
  public long nextOffset() {
    return next;
  }

  @Override
  public long fetches() {
    return fetches;
  }

  @Override
  public long bytes() {
    return bytes;
  }

  @Override
  public long outOfRange() {
    return outOfRange;
  }

  @Override
  public void close() throws IOException {
    giveBack();
  }
}
