package bowstring.spark.wire;

import java.io.Closeable;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps connections between tasks of one process, so that a micro-batch need not open new ones.
 *
 * <p>A borrowed connection belongs to one task until the {@link Lease} is closed; it is kept only if no request is open
 * on it. Before a kept one is returned, the pool checks that the broker has not closed it. A daemon thread closes
 * connections that are idle for kafka.connections.max.idle.ms; it runs only while connections are kept.
 */
public final class ConnectionPool {
  private static final Logger LOG = LoggerFactory.getLogger(ConnectionPool.class);

  /** Per broker; more concurrent tasks are unusual, and each connection holds a buffer. */
  private static final int KEPT_PER_BROKER = 16;

  /** The pool of this process. */
  public static final ConnectionPool SHARED = new ConnectionPool();

  private record Key(
      HostPort address, String clientId, ClientSecurity security, int receiveBufferBytes, int sendBufferBytes) {
    static Key of(HostPort address, ClientOptions options) {
      return new Key(address, options.clientId(), options.security(), options.receiveBufferBytes(),
          options.sendBufferBytes());
    }
  }

  private final Map<Key, ArrayDeque<Connection>> idle = new HashMap<>();

  private final ScheduledThreadPoolExecutor sweeper = new ScheduledThreadPoolExecutor(1, work -> {
    Thread thread = new Thread(work, "bowstring-idle-connections");
    thread.setDaemon(true);
    return thread;
  });
  private boolean sweepIsDue;

  private ConnectionPool() {
    sweeper.setKeepAliveTime(1, TimeUnit.SECONDS);
    sweeper.allowCoreThreadTimeOut(true);
  }

  /** A borrowed connection. Closing the lease returns it, or closes it if it is unusable. */
  public final class Lease implements Closeable {
    private final Key key;
    private final long maxIdleMs;
    private Connection connection;

    private Lease(Key key, long maxIdleMs, Connection connection) {
      this.key = key;
      this.maxIdleMs = maxIdleMs;
      this.connection = connection;
    }

    /** The connection; valid until {@link #close}. */
    public Connection connection() {
      if (connection == null) {
        throw new IllegalStateException("the connection was already returned to the pool");
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
    connection.expiresNanos = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(maxIdleMs);
    Connection surplus = null;
    synchronized (this) {
      ArrayDeque<Connection> kept = idle.computeIfAbsent(key, k -> new ArrayDeque<>());
      kept.addFirst(connection);
      if (kept.size() > KEPT_PER_BROKER) {
        surplus = kept.removeLast();
      }
      if (!sweepIsDue) {
        sweepIsDue = true;
        sweeper.schedule(this::sweep, maxIdleMs + 1, TimeUnit.MILLISECONDS);
      }
    }
    if (surplus != null) {
      surplus.close();
    }
  }

  /** Closes connections that have been idle too long, and schedules itself for the next one. */
  private void sweep() {
    List<Connection> expired = new ArrayList<>();
    synchronized (this) {
      long now = System.nanoTime();
      long next = Long.MAX_VALUE;
      for (Iterator<ArrayDeque<Connection>> all = idle.values().iterator(); all.hasNext(); ) {
        ArrayDeque<Connection> kept = all.next();
        while (!kept.isEmpty() && kept.peekLast().expiresNanos - now <= 0) {
          expired.add(kept.removeLast());
        }
        if (kept.isEmpty()) {
          all.remove();
        } else {
          next = Math.min(next, kept.peekLast().expiresNanos - now);
        }
      }
      sweepIsDue = !idle.isEmpty();
      if (sweepIsDue) {
        sweeper.schedule(this::sweep, next + TimeUnit.MILLISECONDS.toNanos(1), TimeUnit.NANOSECONDS);
      }
    }
    for (Connection unused : expired) {
      try {
        LOG.debug("Closing an idle connection to {}", unused.address);
        unused.close();
      } catch (IOException failed) {
        LOG.debug("Closing an idle connection failed", failed); // it is closed in any case
      }
    }
  }

  /** Number of idle connections. */
  public synchronized int idleConnections() {
    return idle.values().stream().mapToInt(ArrayDeque::size).sum();
  }

  /** Closes all idle connections. */
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
