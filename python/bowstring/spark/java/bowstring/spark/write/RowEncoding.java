package bowstring.spark.write;

import bowstring.spark.values.RegistryWriting;
import java.io.Serializable;
import java.util.Map;
import org.apache.spark.sql.types.StructType;

/**
 * How keys and values that are structs are encoded.
 *
 * @param keys null: the column has bytes
 * @param values null: the column has bytes
 */
record RowEncoding(RegistryWriting keys, RegistryWriting values) implements Serializable {
  /** Keys and values are bytes. */
  static final RowEncoding BYTES = new RowEncoding(null, null);

  /**
   * Finds what the options say.
   *
   * @throws IllegalArgumentException naming the option that is missing or wrong
   */
  static RowEncoding of(Map<String, String> options, RowLayout layout) {
    return new RowEncoding(of(options, "key", layout.keyType()), of(options, "value", layout.valueType()));
  }

  private static RegistryWriting of(Map<String, String> options, String column, StructType type) {
    RegistryWriting found = RegistryWriting.of(options, column, type);
    if (found != null && type == null) {
      throw new IllegalArgumentException(
          "option " + column + ".format=registry needs a column " + column + " of structs");
    }
    return found;
  }

  /** Agrees with the registry on the schemas of a topic. */
  void prepare(String topic) {
    if (keys != null) {
      keys.prepare(topic);
    }
    if (values != null) {
      values.prepare(topic);
    }
  }
}
