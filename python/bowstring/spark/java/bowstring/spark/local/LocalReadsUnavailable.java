package bowstring.spark.local;

import bowstring.spark.wire.WireException;

/** The broker's files cannot be mapped; the message says why. */
public final class LocalReadsUnavailable extends WireException {
  private static final long serialVersionUID = 1L;

  public LocalReadsUnavailable(String why) {
    super(why + ". To read over TCP instead, set the option local to auto or remove it");
  }
}
