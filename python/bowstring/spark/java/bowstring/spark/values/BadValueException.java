package bowstring.spark.values;

/** A value that does not decode; with {@code mode} FAILFAST it ends the query. Says where and why. */
public final class BadValueException extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private final int row;

  /** A value that is bad; its row is below 0 while only the decoder knows of it. */
  BadValueException(int row, String message) {
    super(message, null, false, row >= 0);
    this.row = row;
  }

  /** The same, with the name of the record: its partition and offset. */
  public BadValueException of(String record) {
    return new BadValueException(row, "The value of " + record + " does not decode: " + getMessage());
  }

  /** The value's place in the batch that was being decoded, -1 while it is not known. */
  public int row() {
    return row;
  }
}
