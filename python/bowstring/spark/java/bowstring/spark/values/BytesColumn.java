package bowstring.spark.values;

import java.util.Arrays;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Strings and binaries. A value either stays where it was received, or is copied here if it had to be changed (an
 * escape in JSON, base64).
 */
final class BytesColumn extends ValueColumn {
  private static final byte[] NOTHING = {};
  private static final int COPIES_MAX = Integer.MAX_VALUE - 8;

  /** Start of a value: from 0 on in the received bytes; negative in {@link #copies}, as its complement. */
  private int[] starts = new int[present.length];

  private int[] sizes = new int[present.length];
  private byte[] copies = NOTHING;
  private int copied;
  private Object base;
  private long origin;
  private final byte[] zero;

  BytesColumn(DataType type, boolean zeroed) {
    this(type, zeroed, NOTHING);
  }

  /** A column with this value in rows that are not set, for columns without null. */
  BytesColumn(DataType type, boolean zeroed, byte[] zero) {
    super(type, zeroed);
    this.zero = zero;
  }

  @Override
  protected void grow(int rows) {
    starts = Arrays.copyOf(starts, rows);
    sizes = Arrays.copyOf(sizes, rows);
  }

  /** The memory to which {@link #set} refers; it must live as long as the batch. */
  void attach(Object base, long origin) {
    this.base = base;
    this.origin = origin;
  }

  @Override
  void clear(int row) {
    super.clear(row);
    if (row == 0) {
      copied = 0;
    }
  }

  /** Sets a value that stays in place: {@code size} bytes at {@code address} of the attached memory. */
  void set(int row, long address, int size) {
    mark(row);
    starts[row] = (int) (address - origin);
    sizes[row] = size;
  }

  /** Sets a value that is copied. */
  void copy(int row, byte[] bytes, int size) {
    mark(row);
    if (size > copies.length - copied) {
      if (size > COPIES_MAX - copied) {
        throw new IllegalStateException(
            "the escaped strings of one batch exceed 2 GiB: lower kafka.max.partition.fetch.bytes");
      }
      copies = Arrays.copyOf(copies, (int) Math.min(COPIES_MAX, 2L * copies.length + size + 256));
    }
    System.arraycopy(bytes, 0, copies, copied, size);
    starts[row] = ~copied;
    sizes[row] = size;
    copied += size;
  }

  @Override
  public UTF8String getUTF8String(int row) {
    if (!isSet(row)) {
      return UTF8String.fromBytes(zero);
    }
    int start = starts[row];
    return start >= 0
        ? UTF8String.fromAddress(base, origin + start, sizes[row])
        : UTF8String.fromAddress(copies, Platform.BYTE_ARRAY_OFFSET + ~start, sizes[row]);
  }

  @Override
  public byte[] getBinary(int row) {
    if (!isSet(row)) {
      return zero.clone();
    }
    int start = starts[row];
    byte[] bytes = new byte[sizes[row]];
    if (start >= 0) {
      Platform.copyMemory(base, origin + start, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    } else {
      System.arraycopy(copies, ~start, bytes, 0, bytes.length);
    }
    return bytes;
  }
}
