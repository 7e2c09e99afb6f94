package bowstring.spark.wire;

import java.io.Closeable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * One connection to a broker, used by one thread at a time.
 *
 * <p>Requests may be pipelined ({@link #send} several times); responses come back in that order ({@link #receive}). A
 * response is in the connection's own buffer until the next one is received. Waiting ends with a named exception when
 * the timeout passes, the thread is interrupted or its Spark task is killed; the connection is then unusable and the
 * pool closes it.
 */
public final class Connection implements Closeable {
  private static final int KEPT_BUFFER_BYTES = 16 << 20;

  /** For an ApiVersions response; the first bytes of other protocols look like larger numbers. */
  private static final int MOST_FIRST_ANSWER_BYTES = 1 << 20;

  /** The part of a session after which the client logs in again, as Kafka's clients do. */
  private static final double FIRST_RENEWAL = 0.85;

  private static final double RENEWAL_SPREAD = 0.10;

  private record Pending(ApiKey api, short version, int correlationId, long deadlineNanos) {}

  /** The broker's address. */
  public final HostPort address;

  private final ClientOptions options;
  private final ClientSecurity security;
  private final TimedChannel channel;

  /** Responses that came before a login on the open connection, and are not received yet. */
  private final ArrayDeque<ByteBuffer> early = new ArrayDeque<>();

  private long renewAtNanos;
  private boolean sessionEnds;
  private boolean loggingIn;
  private final ArrayDeque<Pending> pending = new ArrayDeque<>();
  private ApiVersions versions = ApiVersions.INITIAL;
  private ByteBuffer input;
  private int nextCorrelationId = 1;
  private boolean broken;
  private long bytesReceived;
  long expiresNanos;

  private Connection(HostPort address, ClientOptions options, SocketChannel socket) throws IOException {
    this.address = address;
    this.options = options;
    this.security = options.security();
    this.channel = security.hasTls()
        ? new TlsChannel(socket, "broker " + address, security.engine(address))
        : new TimedChannel(socket, "broker " + address);
    this.input = DirectMemory.allocate(1 << 16, "a connection's buffer");
  }

  /**
   * Connects and requests the broker's API versions.
   *
   * @throws WireException.BrokerUnreachable if there is no connection within socket.connection.setup.timeout.ms
   */
  public static Connection open(HostPort address, ClientOptions options) throws IOException {
    Connection connection = null;
    SocketChannel channel = SocketChannel.open();
    try {
      channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
      channel.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
      if (options.receiveBufferBytes() > 0) {
        channel.setOption(StandardSocketOptions.SO_RCVBUF, options.receiveBufferBytes());
      }
      if (options.sendBufferBytes() > 0) {
        channel.setOption(StandardSocketOptions.SO_SNDBUF, options.sendBufferBytes());
      }
      connection = new Connection(address, options, channel);
      connection.connect();
      connection.versions = ApiVersions.ask(connection);
      connection.logIn();
      return connection;
    } catch (IOException | RuntimeException | Error failed) {
      if (connection != null) {
        connection.close();
      } else {
        channel.close();
      }
      throw failed;
    }
  }

  private void logIn() throws IOException {
    if (security.hasSasl()) {
      loggingIn = true;
      try {
        long lifetimeMs = Login.run(this, security.exchange(address.host()));
        sessionEnds = lifetimeMs > 0;
        double part = FIRST_RENEWAL + RENEWAL_SPREAD * ThreadLocalRandom.current().nextDouble();
        renewAtNanos = System.nanoTime() + (long) (TimeUnit.MILLISECONDS.toNanos(lifetimeMs) * part);
      } catch (UncheckedIOException failed) {
        throw failed.getCause();
      } finally {
        loggingIn = false;
      }
    }
  }

  /** Logs in again before the session ends (KIP-368); the responses to open requests come first and are kept. */
  private void renew() throws IOException {
    ByteBuffer inUse = input; // the caller may be reading the last response
    input = DirectMemory.allocate(1 << 16, "a connection's buffer");
    try {
      List<Pending> open = List.copyOf(pending);
      for (Pending request : open.subList(early.size(), open.size())) {
        readFrame(request);
        early.addLast(input);
        input = DirectMemory.allocate(1 << 16, "a connection's buffer");
      }
      List<ByteBuffer> kept = List.copyOf(early);
      early.clear();
      pending.clear();
      try {
        logIn();
      } finally {
        pending.clear();
        pending.addAll(open);
        early.addAll(kept);
      }
    } finally {
      DirectMemory.free(input);
      input = inUse;
    }
  }

  private void connect() throws IOException {
    InetSocketAddress socketAddress = new InetSocketAddress(address.host(), address.port());
    if (socketAddress.isUnresolved()) {
      throw new WireException.BrokerUnreachable("The host name of broker " + address + " does not resolve"
          + ": check kafka.bootstrap.servers, or the broker's advertised.listeners", null);
    }
    try {
      channel.connect(socketAddress, TimedChannel.deadline(options.connectTimeoutMs()));
    } catch (WireException.AuthenticationFailed refused) {
      throw refused;
    } catch (WireException refused) {
      throw new WireException.BrokerUnreachable(refused.getMessage(), refused);
    } catch (IOException refused) {
      throw new WireException.BrokerUnreachable("Cannot connect to broker " + address + " (" + refused.getMessage()
          + "): check that it runs and that kafka.bootstrap.servers and its advertised.listeners are right", refused);
    }
  }

  /** Begins a request at the highest version that both sides support. */
  public RequestWriter request(ApiKey api) throws WireException.UnsupportedByBroker {
    return new RequestWriter(api, versions.common(api), nextCorrelationId++, options.clientId());
  }

  /** Begins a request at a given version, which the broker must support. */
  public RequestWriter request(ApiKey api, int version) {
    return new RequestWriter(api, (short) version, nextCorrelationId++, options.clientId());
  }

  /** The versions that the broker supports. */
  public ApiVersions versions() {
    return versions;
  }

  /** Sends a request whose response is received later. */
  public void send(RequestWriter request) throws IOException {
    send(request, options.requestTimeoutMs());
  }

  /** Sends a request whose response must arrive within {@code timeoutMs}. */
  public void send(RequestWriter request, int timeoutMs) throws IOException {
    if (sessionEnds && !loggingIn && System.nanoTime() - renewAtNanos >= 0) {
      try {
        renew();
      } catch (IOException failed) {
        throw broke(failed);
      }
    }
    long deadline = TimedChannel.deadline(timeoutMs);
    write(request.frame(), deadline);
    pending.addLast(new Pending(request.api, request.version, request.correlationId, deadline));
  }

  /** Sends a request without a response: Produce with acks=0. */
  public void sendOneWay(RequestWriter request) throws IOException {
    write(request.frame(), TimedChannel.deadline(options.requestTimeoutMs()));
  }

  private void write(List<ByteBuffer> frame, long deadline) throws IOException {
    try {
      boolean wasBroken = broken;
      broken = true; // a part of the request may be sent if this throws, also by an unchecked exception of a killed task
      channel.write(frame.toArray(new ByteBuffer[0]), deadline);
      broken = wasBroken;
    } catch (IOException failed) {
      throw broke(failed);
    }
  }

  /** Sends a request and waits for its response. */
  public ResponseReader call(RequestWriter request) throws IOException {
    send(request);
    return receive();
  }

  /** Waits for the response to the oldest open request. The response is valid until the next call. */
  public ResponseReader receive() throws IOException {
    Pending request = pending.peekFirst();
    if (request == null) {
      throw new IllegalStateException("no request is waiting for a response");
    }
    try {
      if (early.isEmpty()) {
        readFrame(request);
      } else {
        DirectMemory.free(input);
        input = early.removeFirst();
      }
    } catch (IOException failed) {
      throw broke(failed);
    }
    pending.removeFirst();
    boolean flexible = request.api.isFlexible(request.version);
    ResponseReader reader = new ResponseReader(input, request.api, request.version, flexible);
    if (flexible && request.api != ApiKey.API_VERSIONS) {
      reader.tags(); // of the header; ApiVersions' response header never has them (KIP-511)
    }
    return reader;
  }

  private void readFrame(Pending request) throws IOException {
    fill(4, request.deadlineNanos);
    int length = input.getInt(0);
    if (length < 4 || versions == ApiVersions.INITIAL && length > MOST_FIRST_ANSWER_BYTES) {
      throw new WireException.MalformedResponse("Broker " + address + " sent a frame of " + length
          + " bytes: is this a Kafka listener, and does kafka.security.protocol fit it?");
    }
    makeRoom(length);
    fill(length, request.deadlineNanos);
    bytesReceived += length + 4L;
    int correlationId = input.getInt();
    if (correlationId != request.correlationId) {
      throw new WireException.MalformedResponse("Broker " + address + " answered request " + correlationId
          + " instead of " + request.correlationId + ": is this a Kafka listener?");
    }
  }

  private void makeRoom(int length) throws WireException.TooLarge {
    if (DirectMemory.capacity(input) < length) {
      ByteBuffer larger = DirectMemory.allocate(
          Math.min(length + (long) length / 4, Integer.MAX_VALUE - 1024), "a response of broker " + address);
      DirectMemory.free(input);
      input = larger;
    }
  }

  private void fill(int bytes, long deadline) throws IOException {
    input.clear().limit(bytes);
    channel.fill(input, deadline);
    input.flip();
  }

  private IOException broke(IOException failed) {
    broken = true;
    if (failed instanceof WireException || failed instanceof java.nio.channels.ClosedByInterruptException) {
      return failed;
    }
    return new WireException.BrokerUnreachable(
        "The connection to broker " + address + " was lost (" + failed.getMessage() + ")", failed);
  }

  /** Requests without a response yet. */
  public int inFlight() {
    return pending.size();
  }

  /** Bytes of all responses so far. */
  public long bytesReceived() {
    return bytesReceived;
  }

  /** Whether the connection can be reused: no open requests, no unread bytes, not closed by the broker. */
  boolean isReusable() {
    return !broken && pending.isEmpty() && channel.isQuiet(input);
  }

  /** Frees the memory of an unusually large response before the connection is kept for others. */
  void shrink() throws WireException.TooLarge {
    if (DirectMemory.capacity(input) > KEPT_BUFFER_BYTES) {
      DirectMemory.free(input);
      input = null;
      input = DirectMemory.allocate(1 << 16, "a connection's buffer");
    }
  }

  @Override
  public void close() throws IOException {
    broken = true;
    try {
      channel.close();
    } finally {
      ByteBuffer freed = input;
      input = null;
      DirectMemory.free(freed);
      early.forEach(DirectMemory::free);
      early.clear();
    }
  }
}
