package bowstring.spark.values;

import java.util.UUID;
import org.apache.spark.unsafe.Platform;

/**
 * What names the schema of a value, at its beginning or in a header of its record: an id, or a guid.
 *
 * @param id 0 where there is a guid
 * @param guid null where there is an id
 */
record SchemaKey(int id, UUID guid) {
  /** The header of a record that names the schema of its value. */
  static final String HEADER = "__value_schema_id";

  static final int ID_BYTES = 5;
  static final int GUID_BYTES = 17;

  /** Bytes of the key at an address; 0 if there is none. */
  static int size(Object base, long at, long end) {
    if (end <= at) {
      return 0;
    }
    int size = switch (Platform.getByte(base, at)) {
      case 0 -> ID_BYTES;
      case 1 -> GUID_BYTES;
      default -> 0;
    };
    return size <= end - at ? size : 0;
  }

  /** The key at an address. */
  static SchemaKey read(Object base, long at, int size) {
    if (size == ID_BYTES) {
      return new SchemaKey(Integer.reverseBytes(Platform.getInt(base, at + 1)), null);
    }
    return new SchemaKey(0, new UUID(Long.reverseBytes(Platform.getLong(base, at + 1)),
        Long.reverseBytes(Platform.getLong(base, at + 9))));
  }

  @Override
  public String toString() {
    return "schema " + (guid != null ? guid : Integer.toUnsignedString(id));
  }
}
