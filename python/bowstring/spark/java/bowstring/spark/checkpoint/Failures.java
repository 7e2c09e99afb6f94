package bowstring.spark.checkpoint;

/** Scala's interfaces declare no checked exceptions, and Spark catches them by their types all the same. */
final class Failures {
  private Failures() {}

  /** Throws any exception as it is; `throw Failures.as(e)` tells the compiler that nothing follows. */
  static RuntimeException as(Exception failure) {
    return Failures.<RuntimeException>rethrow(failure);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Exception> RuntimeException rethrow(Exception failure) throws E {
    throw (E) failure;
  }
}
