package bowstring.spark.values;

import java.util.Locale;

/** What becomes of a value that does not decode: the modes of from_json. */
enum ErrorMode {
  /** A null value, and what is wrong in the column {@code _error}. */
  PERMISSIVE,
  /** The query fails. */
  FAILFAST,
  /** The row is left out. */
  DROPMALFORMED;

  static ErrorMode of(String name) {
    try {
      return valueOf(name.toUpperCase(Locale.ROOT));
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(
          "option mode=" + name + ": it is one of PERMISSIVE, FAILFAST and DROPMALFORMED", e);
    }
  }
}
