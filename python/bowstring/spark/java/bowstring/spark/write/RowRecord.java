package bowstring.spark.write;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The location of the bytes of a row's key, value and headers. Nothing is copied, so it is valid as long as the row.
 *
 * <p>A base of null means that the offset is an address outside the heap; a length of -1 means null.
 */
final class RowRecord {
  static final int NULL = -1;

  Object keyBase;
  long keyOffset;
  int keyLength;
  Object valueBase;
  long valueOffset;
  int valueLength;

  /** Array of (key, value) structures, or null. */
  ArrayData headers;

  private Object base;
  private long offset;
  private int length;

  /** Points the key at a column; -1 is no column. */
  void key(InternalRow row, int ordinal, boolean isString) {
    find(row, ordinal, isString);
    keyBase = base;
    keyOffset = offset;
    keyLength = length;
  }

  /** Points the key at encoded bytes. */
  void key(byte[] bytes, int size) {
    keyBase = bytes;
    keyOffset = Platform.BYTE_ARRAY_OFFSET;
    keyLength = size;
  }

  void nullKey() {
    keyLength = NULL;
  }

  /** Points the value at a column. */
  void value(InternalRow row, int ordinal, boolean isString) {
    find(row, ordinal, isString);
    valueBase = base;
    valueOffset = offset;
    valueLength = length;
  }

  /** Points the value at encoded bytes. */
  void value(byte[] bytes, int size) {
    valueBase = bytes;
    valueOffset = Platform.BYTE_ARRAY_OFFSET;
    valueLength = size;
  }

  void nullValue() {
    valueLength = NULL;
  }

  /** Adds a header behind those of the row. */
  void addHeader(UTF8String key, byte[] value) {
    int own = headers == null ? 0 : headers.numElements();
    Object[] all = new Object[own + 1];
    for (int i = 0; i < own; i++) {
      all[i] = headers.getStruct(i, 2);
    }
    all[own] = new GenericInternalRow(new Object[] {key, value});
    headers = new GenericArrayData(all);
  }

  private void find(InternalRow row, int ordinal, boolean isString) {
    if (ordinal < 0 || row.isNullAt(ordinal)) {
      length = NULL;
    } else if (row instanceof UnsafeRow unsafe) {
      // An UnsafeRow stores (offset << 32 | size) for values of variable length; offsets count from its base.
      long place = unsafe.getLong(ordinal);
      base = unsafe.getBaseObject();
      offset = unsafe.getBaseOffset() + (place >>> 32);
      length = (int) place;
    } else if (isString) {
      UTF8String text = row.getUTF8String(ordinal);
      base = text.getBaseObject();
      offset = text.getBaseOffset();
      length = text.numBytes();
    } else {
      byte[] bytes = row.getBinary(ordinal);
      base = bytes;
      offset = Platform.BYTE_ARRAY_OFFSET;
      length = bytes.length;
    }
  }
}
