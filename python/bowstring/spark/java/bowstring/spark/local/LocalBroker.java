package bowstring.spark.local;

import bowstring.spark.wire.BrokerConfigs;
import bowstring.spark.wire.ClientOptions;
import bowstring.spark.wire.ClusterClient;
import bowstring.spark.wire.HostPort;
import bowstring.spark.wire.Metadata;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * Finds the Unix socket over which a broker on this machine names its segment files (docs/internals/local-reads.md), and keeps
 * connections to it.
 *
 * <p>The broker reports over TCP where the socket is and which instance it is; the socket must answer with the same.
 */
public final class LocalBroker {
  private static final String SOCKET = "bowstring.local.socket";
  private static final String INSTANCE = "bowstring.local.instance";
  private static final long BELIEVED_NANOS = TimeUnit.SECONDS.toNanos(30);
  private static final int KEPT = 16;

  /** The broker's identity as reported over TCP; no path if it has no socket. */
  record Identity(String path, String instance, String clusterId, int nodeId, long saidNanos) {}

  private static final Map<HostPort, Identity> KNOWN = new ConcurrentHashMap<>();
  private static final Map<Identity, Deque<LocalConnection>> IDLE = new ConcurrentHashMap<>();

  private LocalBroker() {}

  /**
   * A connection to the socket of the broker that leads a partition.
   *
   * @throws LocalReadsUnavailable if the broker has no such socket, or is on another machine
   */
  public static LocalConnection connect(HostPort leader, ClientOptions options) throws IOException {
    Identity identity = KNOWN.get(leader);
    boolean isAsked = identity == null || System.nanoTime() - identity.saidNanos() > BELIEVED_NANOS;
    if (isAsked) {
      Identity fresh = ask(leader, options);
      identity = identity != null && sameInstance(identity, fresh) ? identity : fresh;
      KNOWN.put(leader, identity);
    }
    if (identity.path() == null) {
      throw new LocalReadsUnavailable("Broker " + leader + " offers no local reads: it is not Bowstring, or its "
          + "bowstring.local.socket is off");
    }
    Deque<LocalConnection> idle = IDLE.get(identity);
    for (LocalConnection kept = poll(idle); kept != null; kept = poll(idle)) {
      if (kept.isReusable()) {
        return kept;
      }
      kept.close();
    }
    try {
      return LocalConnection.open(identity, options);
    } catch (IOException failed) {
      KNOWN.remove(leader);
      if (isAsked) {
        throw failed;
      }
      return connect(leader, options); // the cached identity may be of a broker that was restarted since
    }
  }

  private static boolean sameInstance(Identity one, Identity other) {
    return one.instance() != null && one.instance().equals(other.instance()) && one.path().equals(other.path());
  }

  private static LocalConnection poll(Deque<LocalConnection> idle) {
    if (idle == null) {
      return null;
    }
    synchronized (idle) {
      return idle.pollFirst();
    }
  }

  private static Identity ask(HostPort leader, ClientOptions options) throws IOException {
    ClusterClient cluster = new ClusterClient(options);
    Metadata metadata = cluster.metadata(List.of());
    int nodeId = -1;
    for (Map.Entry<Integer, HostPort> broker : metadata.brokers().entrySet()) {
      nodeId = broker.getValue().equals(leader) ? broker.getKey() : nodeId;
    }
    int id = nodeId;
    Map<String, String> said =
        cluster.ask(leader, connection -> BrokerConfigs.ask(connection, id, List.of(SOCKET, INSTANCE)));
    String path = said.get(SOCKET);
    String instance = said.get(INSTANCE);
    boolean offered = path != null && path.startsWith("/") && instance != null && !instance.isEmpty();
    return new Identity(offered ? path : null, offered ? instance : null, metadata.clusterId(), id,
        System.nanoTime());
  }

  /** Keeps a connection for the next task, or closes it. */
  public static void giveBack(LocalConnection connection) throws IOException {
    if (connection.isReusable()) {
      Deque<LocalConnection> idle = IDLE.computeIfAbsent(connection.identity, i -> new ArrayDeque<>());
      synchronized (idle) {
        if (idle.size() < KEPT) {
          idle.addFirst(connection);
          return;
        }
      }
    }
    connection.close();
  }
}
