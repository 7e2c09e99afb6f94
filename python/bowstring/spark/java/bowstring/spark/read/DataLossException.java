package bowstring.spark.read;

/** Records that the query was to read are not there any more; thrown while failOnDataLoss is true. */
public final class DataLossException extends IllegalStateException {
  private static final long serialVersionUID = 1L;

  public DataLossException(String message) {
    super(message + ". Some data may have been lost because they are not available any more: either retention removed "
        + "them, or the topic was deleted before all of it was processed. If the query shall go on in such cases, set "
        + "the source option \"failOnDataLoss\" to \"false\".");
  }
}
