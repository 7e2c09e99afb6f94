package bowstring.spark.write.once;

/**
 * An attempt to write one partition of a write.
 *
 * @param write id of the streaming query, or of the batch job
 * @param batch number of the micro-batch; {@link #NO_BATCH} in a batch job
 */
public record Attempt(String write, long batch, int partition, int number) {
  public static final long NO_BATCH = -1;

  /** The name of the attempt's producer. */
  public String transactionalId() {
    return transactionalId(write, partition, number);
  }

  static String transactionalId(String write, int partition, int number) {
    return Coordination.PREFIX + write + "-" + partition + "-" + number;
  }
}
