package bowstring.spark.wire;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The requests about producer ids and transactions to one broker (KIP-98, KIP-360, KIP-664, KIP-890). */
public final class TransactionRequests {
  /** From this version on, the end of a transaction raises its producer's epoch. */
  private static final int END_RAISES_EPOCH = 5;

  /** DescribeTransactions' name of a transaction that is neither committed nor aborted. */
  private static final String ONGOING = "Ongoing";

  private TransactionRequests() {}

  /** A producer's id and epoch, and whether it uses version 2 of transactions. */
  public record Producer(long id, short epoch, boolean version2) {}

  /**
   * Asks for a producer id.
   *
   * @param transactionalId null for a producer without transactions; otherwise the broker is its coordinator, and
   *     aborts what an earlier producer of this name left open
   */
  public static Producer initProducerId(Connection connection, String transactionalId, int timeoutMs)
      throws IOException {
    RequestWriter request = connection.request(ApiKey.INIT_PRODUCER_ID);
    request.string(transactionalId).int32(timeoutMs);
    if (request.version() >= 3) {
      request.int64(-1).int16(-1); // the id and epoch before
    }
    ResponseReader response = connection.call(request.tags());
    response.int32(); // throttle_time_ms
    check(response.int16(), transactionalId == null ? "Asking for a producer id"
        : "Asking for the producer id of transactional id " + transactionalId);
    return new Producer(response.int64(), response.int16(), connection.versions().hasTransactionVersion2());
  }

  /** Adds a partition to a transaction: needed before version 2 of transactions. */
  static Void addPartition(Connection connection, OpenTransaction to, TopicPartition partition) throws IOException {
    RequestWriter request = connection.request(ApiKey.ADD_PARTITIONS_TO_TXN);
    request.string(to.transactionalId()).int64(to.producerId()).int16(to.epoch());
    request.array(1).string(partition.topic()).array(1).int32(partition.partition()).tags().tags();
    ResponseReader response = connection.call(request);
    response.int32(); // throttle_time_ms
    for (int topics = response.array(); topics > 0; topics--) {
      response.string();
      for (int n = response.array(); n > 0; n--) {
        response.int32();
        check(response.int16(), "Adding " + partition + " to the transaction of " + to.transactionalId());
        response.tags();
      }
      response.tags();
    }
    return null;
  }

  /** Sends the end of a transaction; {@link #readEnd} reads the answer. */
  static void sendEnd(Connection connection, OpenTransaction ended, boolean commit) throws IOException {
    int version = connection.versions().forTransactions(ApiKey.END_TXN, END_RAISES_EPOCH);
    RequestWriter request = connection.request(ApiKey.END_TXN, version);
    request.string(ended.transactionalId()).int64(ended.producerId()).int16(ended.epoch()).bool(commit);
    connection.send(request.tags());
  }

  /** The error of the oldest end that was sent. */
  static short readEnd(Connection connection) throws IOException {
    ResponseReader response = connection.receive();
    response.int32(); // throttle_time_ms
    return response.int16();
  }

  /** Returns those of these ids' transactions that are neither committed nor aborted, by id. */
  static Map<String, OpenTransaction> open(Connection connection, List<String> transactionalIds) throws IOException {
    RequestWriter request = connection.request(ApiKey.DESCRIBE_TRANSACTIONS).array(transactionalIds.size());
    transactionalIds.forEach(request::string);
    ResponseReader response = connection.call(request.tags());
    response.int32(); // throttle_time_ms
    Map<String, OpenTransaction> found = new HashMap<>();
    for (int n = response.array(); n > 0; n--) {
      short code = response.int16();
      String id = response.string();
      String state = response.string();
      response.int32(); // transaction_timeout_ms
      response.int64(); // transaction_start_time_ms
      OpenTransaction transaction = new OpenTransaction(id, response.int64(), response.int16());
      skipTopics(response);
      response.tags();
      if (ErrorCode.of(code) != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND) {
        check(code, "Describing transactional id " + id);
        if (ONGOING.equals(state)) {
          found.put(id, transaction);
        }
      }
    }
    return found;
  }

  private static void skipTopics(ResponseReader response) throws IOException {
    for (int topics = response.array(); topics > 0; topics--) {
      response.string();
      for (int n = response.array(); n > 0; n--) {
        response.int32();
      }
      response.tags();
    }
  }

  private static void check(short code, String doing) throws WireException.BrokerError {
    if (code != 0) {
      throw new WireException.BrokerError(code, doing);
    }
  }
}
