package bowstring.spark.wire;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Sends requests to the brokers that coordinate groups and transactions.
 *
 * <p>Retriable errors are retried until kafka.default.api.timeout.ms is over. Not for several threads at once.
 */
public final class CoordinatorClient {
  /** From this version on, FindCoordinator takes several keys (KIP-699). */
  private static final int KEYS_SINCE = 4;

  /** Ends of transactions in flight on one connection. */
  private static final int ENDS_AT_ONCE = 100;

  private static final int GROUP = 0;
  private static final int TRANSACTION = 1;

  private final ClusterClient cluster;
  private final ClientOptions options;

  public CoordinatorClient(ClusterClient cluster, ClientOptions options) {
    this.cluster = cluster;
    this.options = options;
  }

  /** Gets the producer id of a transactional id, and aborts what an earlier producer of this name left open. */
  public TransactionRequests.Producer initProducer(String transactionalId, int timeoutMs) throws IOException {
    return cluster.retrying("Asking for the producer id of transactional id " + transactionalId, () -> {
      HostPort coordinator = find(TRANSACTION, List.of(transactionalId)).get(transactionalId);
      // The markers of the transaction before are written within milliseconds after its end was answered.
      for (long pauseMs = 1; ; pauseMs *= 2) {
        try {
          return cluster.ask(coordinator,
              connection -> TransactionRequests.initProducerId(connection, transactionalId, timeoutMs));
        } catch (WireException.BrokerError refused) {
          if (refused.error != ErrorCode.CONCURRENT_TRANSACTIONS || pauseMs > options.retryBackoffMs()) {
            throw refused;
          }
          ClusterClient.pause(pauseMs);
        }
      }
    });
  }

  /** Adds a partition to a transaction: needed before version 2 of transactions. */
  public void addPartition(OpenTransaction to, TopicPartition partition) throws IOException {
    String id = to.transactionalId();
    cluster.retrying("Adding " + partition + " to the transaction of " + id,
        () -> cluster.ask(find(TRANSACTION, List.of(id)).get(id),
            connection -> TransactionRequests.addPartition(connection, to, partition)));
  }

  /** Returns those of these ids' transactions that are neither committed nor aborted, by id. */
  public Map<String, OpenTransaction> open(Collection<String> transactionalIds) throws IOException {
    List<String> asked = List.copyOf(transactionalIds);
    return asked.isEmpty() ? Map.of() : cluster.retrying("Describing " + asked.size() + " transactional ids", () -> {
      Map<HostPort, List<String>> byBroker = new HashMap<>();
      find(TRANSACTION, asked).forEach(
          (id, broker) -> byBroker.computeIfAbsent(broker, b -> new ArrayList<>()).add(id));
      Map<String, OpenTransaction> found = new HashMap<>();
      for (Map.Entry<HostPort, List<String>> each : byBroker.entrySet()) {
        found.putAll(cluster.ask(each.getKey(), c -> TransactionRequests.open(c, each.getValue())));
      }
      return found;
    });
  }

  /**
   * Commits or aborts transactions. Repeated with the same outcome it does nothing.
   *
   * @return those that have ended otherwise
   */
  public List<OpenTransaction> end(Collection<OpenTransaction> transactions, boolean commit) throws IOException {
    Map<String, OpenTransaction> left = new LinkedHashMap<>();
    transactions.forEach(each -> left.put(each.transactionalId(), each));
    List<OpenTransaction> otherwise = new ArrayList<>();
    if (left.isEmpty()) {
      return otherwise;
    }
    return cluster.retrying("Ending " + left.size() + " transactions", () -> {
      Map<HostPort, List<OpenTransaction>> byBroker = new HashMap<>();
      find(TRANSACTION, List.copyOf(left.keySet())).forEach(
          (id, broker) -> byBroker.computeIfAbsent(broker, b -> new ArrayList<>()).add(left.get(id)));
      WireException failure = null;
      for (Map.Entry<HostPort, List<OpenTransaction>> each : byBroker.entrySet()) {
        WireException failed = endAt(each.getKey(), each.getValue(), commit, left, otherwise);
        failure = failure != null && (failed == null || failed.isRetriable()) ? failure : failed;
      }
      if (failure != null) {
        throw failure;
      }
      return otherwise;
    });
  }

  /** Ends transactions at their coordinator; takes those that have ended from {@code left}. Returns the last failure. */
  private WireException endAt(HostPort coordinator, List<OpenTransaction> ended, boolean commit,
      Map<String, OpenTransaction> left, List<OpenTransaction> otherwise) throws IOException {
    try {
      return cluster.ask(coordinator, connection -> {
        WireException failure = null;
        for (int from = 0; from < ended.size(); from += ENDS_AT_ONCE) {
          List<OpenTransaction> sent = ended.subList(from, Math.min(from + ENDS_AT_ONCE, ended.size()));
          for (OpenTransaction each : sent) {
            TransactionRequests.sendEnd(connection, each, commit);
          }
          for (OpenTransaction each : sent) {
            short code = TransactionRequests.readEnd(connection);
            ErrorCode error = ErrorCode.of(code);
            switch (error) {
              case NONE -> left.remove(each.transactionalId());
              case PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE ->
                  otherwise.add(left.remove(each.transactionalId()));
              default -> failure = failure != null && error.retriable ? failure
                  : new WireException.BrokerError(code, "Ending the transaction of " + each.transactionalId());
            }
          }
        }
        return failure;
      });
    } catch (WireException.BrokerUnreachable | WireException.TimedOut lost) {
      return lost;
    }
  }

  /** Returns what is stored for a group in any partition: offsets, and metadata without an offset. */
  public List<GroupOffsets.Committed> offsets(String group) throws IOException {
    return cluster.retrying("Reading the offsets of group " + group,
        () -> cluster.ask(find(GROUP, List.of(group)).get(group), c -> GroupOffsets.all(c, group)));
  }

  /** Stores an offset of a group without members. */
  public void commitOffset(String group, TopicPartition partition, long offset, String metadata) throws IOException {
    GroupOffsets.Committed stored = new GroupOffsets.Committed(offset, metadata);
    cluster.retrying("Storing an offset of group " + group, () -> cluster.ask(
        find(GROUP, List.of(group)).get(group), c -> GroupOffsets.commit(c, group, partition, stored)));
  }

  /** Returns the broker that coordinates each of these groups or transactional ids. */
  private Map<String, HostPort> find(int kind, List<String> keys) throws IOException {
    return cluster.askAny(connection -> {
      Map<String, HostPort> found = new LinkedHashMap<>();
      if (connection.versions().common(ApiKey.FIND_COORDINATOR) >= KEYS_SINCE) {
        RequestWriter request = connection.request(ApiKey.FIND_COORDINATOR).int8(kind).array(keys.size());
        keys.forEach(request::string);
        ResponseReader response = connection.call(request.tags());
        response.int32(); // throttle_time_ms
        for (int n = response.array(); n > 0; n--) {
          String key = response.string();
          response.int32(); // node_id
          HostPort address = new HostPort(response.string(), response.int32());
          checkFound(response.int16(), key);
          response.string(); // error_message
          response.tags();
          found.put(key, address);
        }
      } else {
        for (String key : keys) {
          found.put(key, findOne(connection, kind, key));
        }
      }
      return found;
    });
  }

  private static HostPort findOne(Connection connection, int kind, String key) throws IOException {
    RequestWriter request = connection.request(ApiKey.FIND_COORDINATOR).string(key).int8(kind);
    ResponseReader response = connection.call(request.tags());
    response.int32(); // throttle_time_ms
    checkFound(response.int16(), key);
    response.string(); // error_message
    response.int32(); // node_id
    return new HostPort(response.string(), response.int32());
  }

  private static void checkFound(short code, String key) throws WireException.BrokerError {
    if (code != 0) {
      throw new WireException.BrokerError(code, "Finding the coordinator of " + key);
    }
  }
}
