package bowstring.spark.wire;

import java.io.Closeable;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Connections kept between tasks of one process, so that a micro-batch does not pay for new ones.
 *
 * <p>A borrowed connection belongs to one task until the {@link Lease} is closed; it comes back only if nothing is
 * outstanding on it. Before a kept one is handed out, it is checked that the broker did not close it. Those idle for
 * kafka.connections.max.idle.ms are closed whenever somebody borrows or gives back.
 */
public final class ConnectionPool {
  private static final Logger LOG = LoggerFactory.getLogger(ConnectionPool.class);

  /** Of one broker; more tasks than this at once is unusual, and each holds a buffer. */
  private static final int KEPT_PER_BROKER = 16;

  /** The pool of this process. */
  public static final ConnectionPool SHARED = new ConnectionPool();

  private record Key(HostPort address, String clientId, int receiveBufferBytes, int sendBufferBytes) {
    static Key of(HostPort address, ClientOptions options) {
      return new Key(address, options.clientId(), options.receiveBufferBytes(), options.sendBufferBytes());
    }
  }

  private final Map<Key, ArrayDeque<Connection>> idle = new HashMap<>();

  private ConnectionPool() {}

  /** A connection on loan. Closing the lease gives it back, or closes it if it is of no more use. */
  public final class Lease implements Closeable {
    private final Key key;
    private final long maxIdleMs;
    private Connection connection;

    private Lease(Key key, long maxIdleMs, Connection connection) {
      this.key = key;
      this.maxIdleMs = maxIdleMs;
      this.connection = connection;
    }

    /** The connection; only until {@link #close}. */
    public Connection connection() {
      if (connection == null) {
        throw new IllegalStateException("the connection was given back");
      }
      return connection;
    }

    @Override
    public void close() throws IOException {
      Connection returned = connection;
      connection = null;
      if (returned != null) {
        giveBack(key, maxIdleMs, returned);
      }
    }
  }

  /**
   * A connection to {@code address}, kept or new.
   *
   * @throws WireException.BrokerUnreachable if a new one cannot be made
   */
  public Lease borrow(HostPort address, ClientOptions options) throws IOException {
    Key key = Key.of(address, options);
    for (Connection kept = poll(key); kept != null; kept = poll(key)) {
      if (kept.isReusable()) {
        return new Lease(key, options.connectionsMaxIdleMs(), kept);
      }
      kept.close();
    }
    return new Lease(key, options.connectionsMaxIdleMs(), Connection.open(address, options));
  }

  private synchronized Connection poll(Key key) {
    ArrayDeque<Connection> kept = idle.get(key);
    return kept == null ? null : kept.pollFirst();
  }

  private void giveBack(Key key, long maxIdleMs, Connection connection) throws IOException {
    if (!connection.isReusable()) {
      connection.close();
      return;
    }
    connection.shrink();
    connection.idleSinceNanos = System.nanoTime();
    List<Connection> surplus = new ArrayList<>();
    synchronized (this) {
      ArrayDeque<Connection> kept = idle.computeIfAbsent(key, k -> new ArrayDeque<>());
      kept.addFirst(connection);
      if (kept.size() > KEPT_PER_BROKER) {
        surplus.add(kept.removeLast());
      }
      takeIdle(System.nanoTime() - TimeUnit.MILLISECONDS.toNanos(maxIdleMs), surplus);
    }
    for (Connection unused : surplus) {
      LOG.debug("Closing an idle connection to {}", unused.address);
      unused.close();
    }
  }

  private void takeIdle(long idleBeforeNanos, List<Connection> into) {
    for (Iterator<ArrayDeque<Connection>> all = idle.values().iterator(); all.hasNext(); ) {
      ArrayDeque<Connection> kept = all.next();
      while (!kept.isEmpty() && kept.peekLast().idleSinceNanos - idleBeforeNanos < 0) {
        into.add(kept.removeLast());
      }
      if (kept.isEmpty()) {
        all.remove();
      }
    }
  }

  /** Connections that nobody uses at the moment. */
  public synchronized int idleConnections() {
    return idle.values().stream().mapToInt(ArrayDeque::size).sum();
  }

  /** Closes what nobody uses at the moment. */
  public void closeIdle() throws IOException {
    List<Connection> unused = new ArrayList<>();
    synchronized (this) {
      idle.values().forEach(unused::addAll);
      idle.clear();
    }
    for (Connection connection : unused) {
      connection.close();
    }
  }
}
