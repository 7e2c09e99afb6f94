package bowstring.spark.local;

import bowstring.spark.wire.ClientOptions;
import bowstring.spark.wire.DirectMemory;
import bowstring.spark.wire.ErrorCode;
import bowstring.spark.wire.TimedChannel;
import bowstring.spark.wire.TopicPartition;
import bowstring.spark.wire.WireException;
import java.io.Closeable;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.UUID;

/** A connection to a broker's local socket: one request at a time. Used by one thread at a time. */
public final class LocalConnection implements Closeable {
  private static final int HELLO = 0;
  private static final int SEGMENTS = 1;
  private static final int MOST_SEGMENTS = 16;
  private static final int MOST_ANSWER_BYTES = 64 << 20;

  /** The broker of this connection. */
  final LocalBroker.Identity identity;

  private final ClientOptions options;
  private final TimedChannel channel;
  private ByteBuffer buffer = ByteBuffer.allocate(8192);
  private int correlationId;
  private boolean broken;

  private LocalConnection(LocalBroker.Identity identity, ClientOptions options, SocketChannel socket)
      throws IOException {
    this.identity = identity;
    this.options = options;
    this.channel = new TimedChannel(socket, "broker's local socket " + identity.path());
  }

  static LocalConnection open(LocalBroker.Identity identity, ClientOptions options) throws IOException {
    Path path = Path.of(identity.path());
    if (!Files.exists(path)) {
      throw new LocalReadsUnavailable("The socket " + path + " does not exist on this machine: the broker is on another "
          + "machine or in another container");
    }
    SocketChannel socket = SocketChannel.open(StandardProtocolFamily.UNIX);
    LocalConnection connection = null;
    try (SocketPath reached = new SocketPath(path)) {
      connection = new LocalConnection(identity, options, socket);
      connection.channel.connect(reached.address(), TimedChannel.deadline(options.connectTimeoutMs()));
      connection.hello();
      return connection;
    } catch (IOException | RuntimeException failed) {
      if (connection != null) {
        connection.close();
      } else {
        socket.close();
      }
      boolean damaged = failed instanceof BufferUnderflowException;
      if (failed instanceof LocalReadsUnavailable || failed instanceof RuntimeException && !damaged) {
        throw failed;
      }
      throw new LocalReadsUnavailable("The socket " + path + " cannot be used (" + failed.getMessage() + ")");
    }
  }

  private void hello() throws IOException {
    begin(HELLO);
    putString(options.clientId());
    ByteBuffer answer = exchange(options.requestTimeoutMs());
    String instance = string(answer);
    String clusterId = string(answer);
    int nodeId = answer.getInt();
    boolean same = instance.equals(identity.instance()) && nodeId == identity.nodeId()
        && (identity.clusterId() == null || clusterId.equals(identity.clusterId()));
    if (!same) {
      throw new LocalReadsUnavailable("Another broker listens at " + identity.path());
    }
  }

  /**
   * Requests the segments with a partition's records from an offset on.
   *
   * @param waitMs how long the broker may wait while there are none
   * @throws WireException.BrokerError as for a Fetch
   */
  public LocalSegments segments(TopicPartition partition, UUID topicId, boolean readCommitted, long offset, int waitMs)
      throws IOException {
    begin(SEGMENTS);
    putString(partition.topic());
    buffer.putLong(topicId.getMostSignificantBits()).putLong(topicId.getLeastSignificantBits());
    buffer.putInt(partition.partition()).putInt(-1).put((byte) (readCommitted ? 1 : 0));
    buffer.putLong(offset).putInt(waitMs).putShort((short) MOST_SEGMENTS).put((byte) 0);
    ByteBuffer answer = exchange(Math.addExact(options.requestTimeoutMs(), waitMs));
    try {
      return LocalSegments.read(answer);
    } catch (BufferUnderflowException damaged) {
      broken = true;
      throw new WireException.MalformedResponse("The broker's response at " + identity.path() + " cannot be decoded");
    }
  }

  private void begin(int kind) {
    buffer.clear();
    buffer.putInt(0).putShort((short) kind).putShort((short) 0).putInt(++correlationId);
  }

  private void putString(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    buffer.putShort((short) bytes.length).put(bytes);
  }

  static String string(ByteBuffer from) {
    int length = from.getShort();
    if (length < 0 || length > from.remaining()) {
      throw new BufferUnderflowException();
    }
    byte[] bytes = new byte[length];
    from.get(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }

  private ByteBuffer exchange(int timeoutMs) throws IOException {
    boolean complete = false;
    try {
      long deadline = TimedChannel.deadline(timeoutMs);
      buffer.putInt(0, buffer.position() - 4).flip();
      channel.write(new ByteBuffer[] {buffer}, deadline);
      channel.fill(buffer.clear().limit(4), deadline);
      int length = buffer.getInt(0);
      if (length < 8 || length > MOST_ANSWER_BYTES) {
        throw new WireException.MalformedResponse("The response at " + identity.path() + " has the invalid length " + length);
      }
      if (buffer.capacity() < length) {
        buffer = ByteBuffer.allocate(length + DirectMemory.SLACK);
      }
      channel.fill(buffer.clear().limit(length), deadline);
      buffer.flip();
      if (buffer.getInt() != correlationId) {
        throw new WireException.MalformedResponse("The response at " + identity.path() + " belongs to another request");
      }
      short error = buffer.getShort();
      String message = string(buffer);
      complete = true;
      if (error != 0) {
        throw new WireException.BrokerError(ErrorCode.of(error), error, "Reading locally: " + message);
      }
      return buffer;
    } finally {
      broken |= !complete;
    }
  }

  boolean isReusable() {
    return !broken && channel.isQuiet(buffer);
  }

  @Override
  public void close() throws IOException {
    broken = true;
    channel.close();
  }
}
