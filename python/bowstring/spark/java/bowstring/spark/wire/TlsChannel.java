package bowstring.spark.wire;

import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;
import javax.net.ssl.SSLException;

/** A socket with TLS. Used by one thread at a time. */
final class TlsChannel extends TimedChannel {
  private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

  private final SSLEngine engine;
  private final String peer;
  private final int recordBytes;

  /** Received and not decrypted; from 0 to its position. */
  private final ByteBuffer encrypted;

  /** Decrypted and not returned; from its position to its limit. */
  private final ByteBuffer plain;

  private final ByteBuffer outgoing;
  private boolean answered;

  TlsChannel(SocketChannel socket, String peer, SSLEngine engine) throws IOException {
    super(socket, peer);
    this.engine = engine;
    this.peer = peer;
    recordBytes = engine.getSession().getApplicationBufferSize();
    encrypted = ByteBuffer.allocate(4 * engine.getSession().getPacketBufferSize());
    plain = ByteBuffer.allocate(recordBytes).limit(0);
    outgoing = ByteBuffer.allocate(4 * engine.getSession().getPacketBufferSize());
  }

  @Override
  public void connect(SocketAddress address, long deadline) throws IOException {
    super.connect(address, deadline);
    try {
      engine.beginHandshake();
      for (HandshakeStatus next = engine.getHandshakeStatus();
          next != HandshakeStatus.NOT_HANDSHAKING && next != HandshakeStatus.FINISHED;
          next = engine.getHandshakeStatus()) {
        if (next == HandshakeStatus.NEED_UNWRAP || next == HandshakeStatus.NEED_UNWRAP_AGAIN) {
          unwrap(plain.clear(), deadline);
          plain.flip();
        } else {
          step(next, deadline);
        }
      }
    } catch (SSLException refused) {
      throw failure(refused);
    }
  }

  private WireException.AuthenticationFailed failure(SSLException refused) {
    Throwable cause = refused;
    while (cause.getCause() != null) {
      cause = cause.getCause();
    }
    return new WireException.AuthenticationFailed("TLS with " + peer + " failed (" + cause.getMessage()
        + "): check kafka.security.protocol, the authorities that this client trusts (kafka.ssl.truststore.location or "
        + "kafka.ssl.ca.location), the host name in the broker's certificate, and its dates", refused);
  }

  /** What the handshake, or a change of keys, needs next. */
  private void step(HandshakeStatus next, long deadline) throws IOException {
    if (next == HandshakeStatus.NEED_TASK) {
      for (Runnable task = engine.getDelegatedTask(); task != null; task = engine.getDelegatedTask()) {
        task.run();
      }
    } else if (next == HandshakeStatus.NEED_WRAP) {
      outgoing.clear();
      SSLEngineResult result = engine.wrap(NOTHING, outgoing);
      super.write(new ByteBuffer[] {outgoing.flip()}, deadline);
      if (result.getStatus() == SSLEngineResult.Status.CLOSED) {
        throw new SSLException("the other side has closed TLS");
      }
    }
  }

  @Override
  public void write(ByteBuffer[] parts, long deadline) throws IOException {
    int first = 0;
    while (first < parts.length) {
      outgoing.clear();
      while (first < parts.length && outgoing.remaining() >= engine.getSession().getPacketBufferSize()) {
        engine.wrap(parts, first, parts.length - first, outgoing);
        while (first < parts.length && !parts[first].hasRemaining()) {
          first++;
        }
      }
      super.write(new ByteBuffer[] {outgoing.flip()}, deadline);
    }
  }

  @Override
  public void fill(ByteBuffer buffer, long deadline) throws IOException {
    try {
      while (buffer.hasRemaining()) {
        if (plain.hasRemaining()) {
          int n = Math.min(plain.remaining(), buffer.remaining());
          buffer.put(plain.slice(plain.position(), n));
          plain.position(plain.position() + n);
          answered = true;
        } else if (buffer.remaining() >= recordBytes) {
          unwrap(buffer, deadline);
        } else {
          unwrap(plain.clear(), deadline);
          plain.flip();
        }
      }
    } catch (SSLException refused) {
      if (answered) {
        throw new WireException.BrokerUnreachable("TLS with " + peer + " broke (" + refused.getMessage() + ")", refused);
      }
      throw failure(refused); // TLS 1.3: the broker refuses this client's certificate after the handshake
    }
  }

  /** Decrypts one record, for which it waits. */
  private void unwrap(ByteBuffer into, long deadline) throws IOException {
    while (true) {
      SSLEngineResult result = unwrapNow(into);
      if (result.getStatus() == SSLEngineResult.Status.CLOSED) {
        throw closed();
      }
      if (result.getStatus() == SSLEngineResult.Status.OK) {
        if (engine.getHandshakeStatus() != HandshakeStatus.NEED_UNWRAP) {
          step(engine.getHandshakeStatus(), deadline);
        }
        return;
      }
      if (readSome(encrypted, deadline) < 0) {
        throw closed();
      }
    }
  }

  private SSLEngineResult unwrapNow(ByteBuffer into) throws SSLException {
    encrypted.flip();
    try {
      return engine.unwrap(encrypted, into);
    } finally {
      encrypted.compact();
    }
  }

  private WireException.BrokerUnreachable closed() {
    return new WireException.BrokerUnreachable("The " + peer + " closed the connection: it stopped, or does not accept "
        + "TLS on this listener; check kafka.security.protocol", null);
  }

  @Override
  public boolean isQuiet(ByteBuffer scratch) {
    try {
      int received = readNow(encrypted);
      if (received < 0 || plain.hasRemaining()) {
        return false;
      }
      while (encrypted.position() > 0) { // tickets for later sessions
        SSLEngineResult result = unwrapNow(plain.clear());
        plain.flip();
        if (result.getStatus() != SSLEngineResult.Status.OK || plain.hasRemaining()) {
          return false;
        }
      }
      return true;
    } catch (IOException broken) {
      return false;
    }
  }

  @Override
  public void close() throws IOException {
    try {
      engine.closeOutbound();
    } finally {
      super.close();
    }
  }
}
