package bowstring.spark.wire;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.UUID;

/**
 * The Fetch request for one partition, and its response.
 *
 * <p>One object serves a reader for all its requests. The response's records are in the connection's buffer until the
 * next response is received.
 */
public final class Fetch {
  private static final UUID NO_ID = new UUID(0, 0);
  private static final int NO_SESSION_EPOCH = -1;
  private static final int NO_REPLICA = -1;

  private final TopicPartition partition;
  private final UUID topicId;
  private final boolean readCommitted;
  private String rack = "";

  private ErrorCode error;
  private short code;
  private long highWatermark;
  private long lastStableOffset;
  private long logStartOffset;
  private int preferredReplica;
  private long[] aborted = new long[0];
  private ByteBuffer buffer;
  private int position;
  private int length;

  /**
   * A fetch of one partition.
   *
   * @param topicId from metadata; zero sends the name, at a version before 13
   */
  public Fetch(TopicPartition partition, UUID topicId, boolean readCommitted) {
    this.partition = partition;
    this.topicId = topicId;
    this.readCommitted = readCommitted;
  }

  /** Says from now on where this reader is, so that the leader may name a nearer replica; empty: it wants none. */
  public void from(String newRack) {
    rack = newRack;
  }

  /**
   * Sends a request for records from {@code offset} on.
   *
   * @param maxWaitMs how long the broker may wait for {@code minBytes}
   * @param maxBytes wanted at most; a larger first batch still comes complete (KIP-74)
   */
  public void send(Connection connection, long offset, int maxWaitMs, int minBytes, int maxBytes, int timeoutMs)
      throws IOException {
    int version = connection.versions().common(ApiKey.FETCH);
    if (topicId.equals(NO_ID)) {
      version = Math.min(version, 12);
    }
    RequestWriter request = connection.request(ApiKey.FETCH, version);
    if (version <= 14) {
      request.int32(-1); // replica_id: a consumer
    }
    request.int32(maxWaitMs).int32(minBytes).int32(maxBytes).int8(readCommitted ? 1 : 0);
    if (version >= 7) {
      request.int32(0).int32(NO_SESSION_EPOCH); // no fetch session (KIP-227): each request is independent
    }
    request.array(1);
    if (version >= 13) {
      request.uuid(topicId);
    } else {
      request.string(partition.topic());
    }
    request.array(1).int32(partition.partition());
    if (version >= 9) {
      request.int32(-1); // current_leader_epoch
    }
    request.int64(offset);
    if (version >= 12) {
      request.int32(-1); // last_fetched_epoch
    }
    if (version >= 5) {
      request.int64(-1); // log_start_offset
    }
    request.int32(maxBytes).tags().tags();
    if (version >= 7) {
      request.array(0); // forgotten_topics_data
    }
    if (version >= 11) {
      request.string(rack);
    }
    connection.send(request.tags(), timeoutMs);
  }

  /** Receives the response to the oldest request. */
  public void receive(Connection connection) throws IOException {
    ResponseReader response = connection.receive();
    int version = response.version();
    reset();
    response.int32(); // throttle_time_ms
    if (version >= 7) {
      note(response.int16());
      response.int32(); // session_id
    }
    for (int topics = response.array(); topics > 0 && length == 0; topics--) {
      if (version >= 13) {
        response.uuid();
      } else {
        response.string();
      }
      for (int n = response.array(); n > 0; n--) {
        readPartition(response); // exactly one was requested
      }
      response.tags();
    }
  }

  private void reset() {
    note((short) 0);
    aborted = new long[0];
    buffer = null;
    position = 0;
    length = 0;
    highWatermark = -1;
    lastStableOffset = -1;
    logStartOffset = -1;
    preferredReplica = NO_REPLICA;
  }

  private void note(short errorCode) {
    code = errorCode;
    error = ErrorCode.of(errorCode);
  }

  private void readPartition(ResponseReader response) throws WireException.MalformedResponse {
    int version = response.version();
    response.int32(); // partition_index
    short partitionError = response.int16();
    if (partitionError != 0) {
      note(partitionError);
    }
    highWatermark = response.int64();
    lastStableOffset = response.int64();
    logStartOffset = version >= 5 ? response.int64() : -1;
    int transactions = Math.max(0, response.array());
    aborted = new long[2 * transactions];
    for (int i = 0; i < transactions; i++) {
      aborted[2 * i] = response.int64();
      aborted[2 * i + 1] = response.int64();
      response.tags();
    }
    if (version >= 11) {
      preferredReplica = response.int32();
    }
    length = Math.max(0, response.recordsLength());
    buffer = response.buffer();
    position = buffer.position();
    response.skip(length);
    response.tags();
  }

  public ErrorCode error() {
    return error;
  }

  /** The error as an exception. */
  public WireException.BrokerError exception() {
    return new WireException.BrokerError(error, code, "Reading " + partition);
  }

  /** Id of the broker to read from instead (KIP-392); -1 if this one is right. */
  public int preferredReplica() {
    return preferredReplica;
  }

  /** Offset after the last record that all in-sync replicas have. */
  public long highWatermark() {
    return highWatermark;
  }

  /** Offset before which no transaction is open. */
  public long lastStableOffset() {
    return lastStableOffset;
  }

  /** First existing offset of the partition; -1 if the broker is too old to report it. */
  public long logStartOffset() {
    return logStartOffset;
  }

  /** Producer id and first offset of each aborted transaction, alternating. */
  public long[] abortedTransactions() {
    return aborted;
  }

  /** The buffer with the records; null if there are none. */
  public ByteBuffer buffer() {
    return buffer;
  }

  /** Index of the first byte of the records. */
  public int position() {
    return position;
  }

  /** Bytes of records; the last batch may be incomplete. */
  public int length() {
    return length;
  }
}
