package bowstring.spark.wire;

import java.io.Closeable;
import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;

/**
 * A socket whose waits always end: at a deadline, when the thread is interrupted, or when its Spark task is killed.
 *
 * <p>After an exception the socket can only be closed. Used by one thread at a time.
 */
public class TimedChannel implements Closeable {
  private static final int KILL_CHECK_MS = 100;

  private final SocketChannel channel;
  private final Selector selector;
  private final SelectionKey key;
  private final String peer;

  /**
   * Wraps a socket that is not connected yet.
   *
   * @param peer for messages: "broker host:port"
   */
  public TimedChannel(SocketChannel channel, String peer) throws IOException {
    this.channel = channel;
    this.peer = peer;
    channel.configureBlocking(false);
    this.selector = Selector.open();
    this.key = channel.register(selector, 0);
  }

  /** The time {@code timeoutMs} from now, for the other methods. */
  public static long deadline(int timeoutMs) {
    return System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
  }

  public void connect(SocketAddress address, long deadline) throws IOException {
    if (!channel.connect(address)) {
      while (!channel.finishConnect()) {
        await(SelectionKey.OP_CONNECT, deadline, "connect to");
      }
    }
  }

  /** Writes all of the buffers. */
  public void write(ByteBuffer[] parts, long deadline) throws IOException {
    int first = 0;
    while (first < parts.length) {
      long written = channel.write(parts, first, parts.length - first);
      while (first < parts.length && !parts[first].hasRemaining()) {
        first++;
      }
      if (written == 0 && first < parts.length) {
        await(SelectionKey.OP_WRITE, deadline, "send to");
      }
    }
  }

  /** Reads until the buffer is full. */
  public void fill(ByteBuffer buffer, long deadline) throws IOException {
    while (buffer.hasRemaining()) {
      int n = channel.read(buffer);
      if (n < 0) {
        throw new WireException.BrokerUnreachable("The " + peer + " closed the connection: it stopped, or does not accept "
            + "plaintext connections without a login on this listener; check kafka.security.protocol", null);
      }
      if (n == 0) {
        await(SelectionKey.OP_READ, deadline, "get an answer from");
      }
    }
  }

  /** Reads what is there, at least one byte; returns -1 at the end. */
  final int readSome(ByteBuffer buffer, long deadline) throws IOException {
    while (true) {
      int n = channel.read(buffer);
      if (n != 0) {
        return n;
      }
      await(SelectionKey.OP_READ, deadline, "get an answer from");
    }
  }

  /** Reads what is there without waiting. */
  final int readNow(ByteBuffer buffer) throws IOException {
    return channel.isOpen() ? channel.read(buffer) : -1;
  }

  private void await(int operation, long deadline, String doing) throws IOException {
    key.interestOps(operation);
    while (true) {
      long leftMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
      if (leftMs <= 0) {
        throw new WireException.TimedOut("Waited too long to " + doing + " " + peer
            + ": check that it runs and is not overloaded, or raise kafka.request.timeout.ms");
      }
      selector.selectedKeys().clear();
      if (selector.select(Math.min(leftMs, KILL_CHECK_MS)) > 0) {
        return;
      }
      if (Thread.currentThread().isInterrupted()) {
        throw new ClosedByInterruptException();
      }
      TaskContext task = TaskContext.get();
      if (task != null) {
        task.killTaskIfInterrupted();
      }
    }
  }

  /** Whether the other side has sent nothing and has not closed; {@code scratch} may be overwritten. */
  public boolean isQuiet(ByteBuffer scratch) {
    try {
      return channel.isOpen() && channel.read(scratch.clear().limit(1)) == 0;
    } catch (IOException closed) {
      return false;
    }
  }

  @Override
  public void close() throws IOException {
    try {
      selector.close();
    } finally {
      channel.close();
    }
  }
}
