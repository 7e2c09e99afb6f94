package bowstring.spark.wire;

import java.io.IOException;

/** An error between this client and a broker. Subclasses name the cause; every message says what to do. */
public class WireException extends IOException {
  private static final long serialVersionUID = 1L;

  public WireException(String message) {
    super(message);
  }

  public WireException(String message, Throwable cause) {
    super(message, cause);
  }

  /** Whether the same request may succeed later, perhaps at another broker. */
  public boolean isRetriable() {
    return false;
  }

  /** No connection to a broker could be made, or it broke. */
  public static final class BrokerUnreachable extends WireException {
    private static final long serialVersionUID = 1L;

    public BrokerUnreachable(String message, Throwable cause) {
      super(message, cause);
    }

    @Override
    public boolean isRetriable() {
      return true;
    }
  }

  /** A broker did not answer within kafka.request.timeout.ms, or the whole call took too long. */
  public static final class TimedOut extends WireException {
    private static final long serialVersionUID = 1L;

    public TimedOut(String message) {
      super(message);
    }

    public TimedOut(String message, Throwable cause) {
      super(message, cause);
    }

    @Override
    public boolean isRetriable() {
      return true;
    }
  }

  /** The answer is not a Kafka response: another protocol, TLS on the port, or a damaged stream. */
  public static final class MalformedResponse extends WireException {
    private static final long serialVersionUID = 1L;

    public MalformedResponse(String message) {
      super(message);
    }
  }

  /** A broker refused the login, or TLS could not be set up; another attempt needs other settings. */
  public static final class AuthenticationFailed extends WireException {
    private static final long serialVersionUID = 1L;

    public AuthenticationFailed(String message, Throwable cause) {
      super(message, cause);
    }
  }

  /** Broker and client have no common version of an API. */
  public static final class UnsupportedByBroker extends WireException {
    private static final long serialVersionUID = 1L;

    public UnsupportedByBroker(String message) {
      super(message);
    }
  }

  /** The broker answered with an error code. */
  public static final class BrokerError extends WireException {
    private static final long serialVersionUID = 1L;

    /** The error as Kafka names it. */
    public final ErrorCode error;

    public BrokerError(ErrorCode error, short code, String doing) {
      super(doing + ": the broker answered " + (error == ErrorCode.OTHER ? "error " + code : error.name()) + " ("
          + error.advice + ")");
      this.error = error;
    }

    public BrokerError(short code, String doing) {
      this(ErrorCode.of(code), code, doing);
    }

    @Override
    public boolean isRetriable() {
      return error.retriable;
    }
  }

  /** Record batches that fail their checksum, or have contradictory contents. */
  public static final class CorruptRecords extends WireException {
    private static final long serialVersionUID = 1L;

    public CorruptRecords(String message) {
      super(message);
    }

    public CorruptRecords(String message, Throwable cause) {
      super(message, cause);
    }
  }

  /** A response or a decompressed batch is larger than this process can hold. */
  public static final class TooLarge extends WireException {
    private static final long serialVersionUID = 1L;

    public TooLarge(String message, Throwable cause) {
      super(message, cause);
    }
  }
}
