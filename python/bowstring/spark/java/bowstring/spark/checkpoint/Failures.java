package bowstring.spark.checkpoint;

/** Scala's interfaces declare no checked exceptions, but Spark catches them by type. */
final class Failures {
  private Failures() {}

  /** Throws any exception unchanged; `throw Failures.as(e)` tells the compiler that nothing follows. */
  static RuntimeException as(Exception failure) {
    return Failures.<RuntimeException>rethrow(failure);
  }

  @SuppressWarnings("unchecked")
  private static <E extends Exception> RuntimeException rethrow(Exception failure) throws E {
    throw (E) failure;
  }
}
