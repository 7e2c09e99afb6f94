package bowstring.spark.values;

/** A value that does not decode; in {@code mode} FAILFAST it ends the query. The message says where and why. */
public final class BadValueException extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private final int row;

  /** A bad value; the row is negative as long as only the decoder handles it. */
  BadValueException(int row, String message) {
    super(message, null, false, row >= 0);
    this.row = row;
  }

  /** The same exception with the name of the record: its partition and offset. */
  public BadValueException of(String record) {
    return new BadValueException(row, "The value of " + record + " does not decode: " + getMessage());
  }

  /** The value's row in the batch, -1 while unknown. */
  public int row() {
    return row;
  }
}
