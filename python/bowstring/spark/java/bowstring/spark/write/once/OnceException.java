package bowstring.spark.write.once;

import bowstring.spark.wire.WireException;

/** Transactions of a write could not be decided or committed; every message says what to do. */
public class OnceException extends WireException {
  private static final long serialVersionUID = 1L;

  OnceException(String message) {
    super(message);
  }

  /** Nothing of the batch is committed: it has to run again. */
  public static final class Undecided extends OnceException {
    private static final long serialVersionUID = 1L;

    Undecided(String message) {
      super(message);
    }
  }

  /** Transactions of a decided batch were aborted: their rows are missing in the topic. */
  public static final class DecidedLost extends OnceException {
    private static final long serialVersionUID = 1L;

    DecidedLost(String message) {
      super(message);
    }
  }

  /** The checkpoint and the group that holds the decisions contradict each other. */
  public static final class Checkpoint extends OnceException {
    private static final long serialVersionUID = 1L;

    Checkpoint(String message) {
      super(message);
    }
  }

  /** The query has no micro-batches that are repeated with the same rows. */
  public static final class NoMicroBatches extends OnceException {
    private static final long serialVersionUID = 1L;

    NoMicroBatches(String message) {
      super(message);
    }
  }
}
