package bowstring.spark.values;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Encodes structs as values of a schema: what they are to Bowstring's clients, byte for byte. Used by one task at a time.
 *
 * <p>Fields are matched by name; those that the schema does not have are left out, and missing ones are null.
 */
public abstract class ValueEncoder {
  private static final int FIRST_BYTES = 256;
  private static final int LARGEST_BYTES = Integer.MAX_VALUE - 16;
  private static final int SIZE_BYTES = 5;

  private byte[] out = new byte[FIRST_BYTES];
  private int used;
  private byte[] start = new byte[0];
  private byte[] header;

  /** How one part of a value is written; made for a type of the column and a part of the schema. */
  @FunctionalInterface
  interface Part {
    void put(SpecializedGetters in, int at);
  }

  /** Sets the first bytes of every value, and the bytes of the header that names the schema; null for none. */
  final ValueEncoder with(byte[] first, byte[] named) {
    start = first;
    header = named;
    return this;
  }

  /** The bytes of the header {@link RegistryWriting#header}; null if values begin with their schema's id. */
  public final byte[] header() {
    return header;
  }

  /**
   * Encodes a struct; the result is valid until the next call.
   *
   * @throws BadValueException if it does not fit the schema; the message names the field
   */
  public final void encode(InternalRow struct) {
    used = 0;
    bytes(start);
    root(struct);
  }

  /** The array with the encoded value, from its beginning. */
  public final byte[] bytes() {
    return out;
  }

  /** Bytes of the encoded value. */
  public final int size() {
    return used;
  }

  /** Encodes the fields of the value. */
  protected abstract void root(InternalRow struct);

  /** The exception for a field that does not fit. */
  static BadValueException bad(String path, String why) {
    return new BadValueException(-1, (path.isEmpty() ? "the value" : path) + ": " + why);
  }

  // ---------------------------------------------------------------- bytes

  private void room(int more) {
    if (more > out.length - used) {
      if (more > LARGEST_BYTES - used) {
        throw bad("", "it would have more than 2 GiB");
      }
      out = Arrays.copyOf(out, (int) Math.min(LARGEST_BYTES, Math.max((long) used + more, out.length * 2L)));
    }
  }

  final void one(int b) {
    room(1);
    out[used++] = (byte) b;
  }

  final void bytes(byte[] more) {
    room(more.length);
    System.arraycopy(more, 0, out, used, more.length);
    used += more.length;
  }

  final void text(UTF8String text) {
    room(text.numBytes());
    text.writeToMemory(out, Platform.BYTE_ARRAY_OFFSET + used);
    used += text.numBytes();
  }

  /** Writes a number of the type {@code long} as unsigned: seven bits in each byte. */
  final void varint(long value) {
    room(10);
    long rest = value;
    while ((rest & ~0x7fL) != 0) {
      out[used++] = (byte) (rest | 0x80);
      rest >>>= 7;
    }
    out[used++] = (byte) rest;
  }

  final void zigzag(long value) {
    varint(value << 1 ^ value >> 63);
  }

  /** Little-endian. */
  final void four(int value) {
    room(4);
    Platform.putInt(out, Platform.BYTE_ARRAY_OFFSET + used, value);
    used += 4;
  }

  /** Little-endian. */
  final void eight(long value) {
    room(8);
    Platform.putLong(out, Platform.BYTE_ARRAY_OFFSET + used, value);
    used += 8;
  }

  /** Leaves room for a length; returns where. */
  final int beginSized() {
    room(SIZE_BYTES);
    used += SIZE_BYTES;
    return used;
  }

  /** Writes the length of what follows {@code begin}, and moves that to directly behind the length. */
  final void endSized(int begin) {
    int size = used - begin;
    used = begin - SIZE_BYTES;
    varint(size);
    System.arraycopy(out, begin, out, used, size);
    used += size;
  }
}
