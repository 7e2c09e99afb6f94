package bowstring.spark;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.nio.channels.ClosedByInterruptException;
import org.apache.spark.sql.execution.QueryExecutionException;

/**
 * A request of the driver to the brokers failed. For this type PySpark shows only the message, one sentence; for an
 * UncheckedIOException it shows some hundred lines of the JVM's stack.
 */
public final class DriverFailure extends QueryExecutionException {
  private static final long serialVersionUID = 1L;

  private DriverFailure(IOException cause) {
    super(cause.getMessage(), cause);
  }

  /**
   * The exception to throw for a failure. For an interrupted thread it stays an exception that Spark takes for the end
   * of a stopped query.
   */
  public static RuntimeException of(IOException failed) {
    if (failed instanceof InterruptedIOException || failed instanceof ClosedByInterruptException) {
      return new UncheckedIOException(failed);
    }
    return sneaky(new DriverFailure(failed));
  }

  /** QueryExecutionException is written in Scala, which has no checked exceptions; the interfaces here declare none. */
  @SuppressWarnings("unchecked")
  private static <T extends Throwable> RuntimeException sneaky(Throwable failure) throws T {
    throw (T) failure;
  }
}
