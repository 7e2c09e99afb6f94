package bowstring.spark.values;

import java.util.Locale;

/** What happens to a value that does not decode: the modes of from_json. */
enum ErrorMode {
  /** The value is null, and the column {@code _error} has the reason. */
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
          "option mode=" + name + ": it must be PERMISSIVE, FAILFAST or DROPMALFORMED", e);
    }
  }
}
