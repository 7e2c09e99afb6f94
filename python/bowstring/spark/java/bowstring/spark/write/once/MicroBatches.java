package bowstring.spark.write.once;

import java.util.UUID;
import org.apache.spark.sql.classic.SparkSession;

/**
 * Checks that a streaming query runs in micro-batches, which a restart repeats with the same rows.
 *
 * <p>In real-time mode, and with a continuous trigger, Spark notes the rows of a batch after the sink has committed
 * them: a batch that is repeated may have others.
 */
public final class MicroBatches {
  private MicroBatches() {}

  /**
   * Checks the query of that id, which is active. On the driver.
   *
   * @throws OnceException.NoMicroBatches if it has another trigger, or Spark does not tell
   */
  public static void require(String queryId) throws OnceException {
    String trigger = trigger(queryId);
    if (!trigger.endsWith("ProcessingTimeTrigger") && !trigger.startsWith("AvailableNow")
        && !trigger.startsWith("OneTime")) {
      throw new OnceException.NoMicroBatches("delivery=exactly-once needs micro-batches, and the query's trigger is "
          + trigger + ": use a trigger such as processingTime or availableNow, or leave the option out");
    }
  }

  private static String trigger(String queryId) {
    try {
      Object query = SparkSession.active().sharedState().activeStreamingQueries().get(UUID.fromString(queryId));
      if (query != null) { // by reflection: its class has moved between versions of Spark
        String name = query.getClass().getMethod("trigger").invoke(query).getClass().getSimpleName();
        return name.replace("$", "");
      }
    } catch (ReflectiveOperationException | LinkageError | IllegalArgumentException otherSpark) {
      return "unknown (" + otherSpark + ")";
    }
    return "unknown or continuous"; // Spark plans a query with a continuous trigger before it lists the query
  }
}
