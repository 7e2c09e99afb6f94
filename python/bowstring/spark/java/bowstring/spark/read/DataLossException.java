package bowstring.spark.read;

/** Records that the query must read no longer exist; thrown while failOnDataLoss is true. */
public final class DataLossException extends IllegalStateException {
  private static final long serialVersionUID = 1L;

  public DataLossException(String message) {
    super(message + ". Some data may have been lost because it is no longer available: either retention deleted it, or "
        + "the topic was deleted before all of it was processed. To let the query continue in such cases, set the "
        + "source option \"failOnDataLoss\" to \"false\".");
  }
}
