package bowstring.spark.write;

import bowstring.spark.wire.WireException;

/** Records could not be written. The task fails, and Spark retries it as often as configured. */
public class SinkException extends WireException {
  private static final long serialVersionUID = 1L;

  public SinkException(String message) {
    super(message);
  }

  public SinkException(String message, Throwable cause) {
    super(message, cause);
  }

  /** A record is larger than the sink, the topic or the broker allows. */
  public static final class RecordTooLarge extends SinkException {
    private static final long serialVersionUID = 1L;

    public RecordTooLarge(String message) {
      super(message);
    }
  }

  /** A batch was not acknowledged within kafka.delivery.timeout.ms. */
  public static final class DeliveryTimedOut extends SinkException {
    private static final long serialVersionUID = 1L;

    public DeliveryTimedOut(String message, Throwable cause) {
      super(message, cause);
    }
  }

  /** A row has no topic, and the option does not name one. */
  public static final class NullTopic extends SinkException {
    private static final long serialVersionUID = 1L;

    public NullTopic() {
      super("null topic present in the data. Use the topic option for setting a default topic.");
    }
  }
}
