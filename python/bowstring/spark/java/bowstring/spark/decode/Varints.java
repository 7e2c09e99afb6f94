package bowstring.spark.decode;

import bowstring.spark.wire.WireException;
import org.apache.spark.unsafe.Platform;

/**
 * Kafka's zigzag variable-length numbers.
 *
 * <p>A 32-bit number and its length are returned in one long, so that the decoder's loop keeps both in registers. Up to
 * ten bytes are read from the address, which the caller must guarantee ({@code DirectMemory.SLACK}).
 */
final class Varints {
  private static final int LENGTH_SHIFT = 32;

  private Varints() {}

  /** Reads a number of up to 32 bits; see {@link #value} and {@link #length}. */
  static long read(long address) throws WireException.CorruptRecords {
    int first = Platform.getByte(null, address);
    if (first >= 0) {
      return 1L << LENGTH_SHIFT | first;
    }
    int second = Platform.getByte(null, address + 1);
    if (second >= 0) {
      return 2L << LENGTH_SHIFT | (first & 0x7f | second << 7);
    }
    return readLong(address, first & 0x7f | (second & 0x7f) << 7);
  }

  private static long readLong(long address, int low) throws WireException.CorruptRecords {
    int raw = low;
    for (int i = 2; i < 5; i++) {
      int next = Platform.getByte(null, address + i);
      raw |= (next & 0x7f) << 7 * i;
      if (next >= 0) {
        return (i + 1L) << LENGTH_SHIFT | raw & 0xffffffffL;
      }
    }
    throw new WireException.CorruptRecords("A record has a number of more than 32 bits");
  }

  /** The number that {@link #read} returned. */
  static int value(long read) {
    int raw = (int) read;
    return raw >>> 1 ^ -(raw & 1);
  }

  /** The number of bytes that it takes. */
  static int length(long read) {
    return (int) (read >>> LENGTH_SHIFT);
  }

  /** A number of up to 64 bits; its length is {@link #length64}. */
  static long value64(long address) {
    int first = Platform.getByte(null, address);
    if (first >= 0) {
      return first >>> 1 ^ -(first & 1);
    }
    long raw = 0;
    for (int i = 0; i < 10; i++) {
      int next = Platform.getByte(null, address + i);
      raw |= (long) (next & 0x7f) << 7 * i;
      if (next >= 0) {
        break;
      }
    }
    return raw >>> 1 ^ -(raw & 1);
  }

  /** How many bytes a number of up to 64 bits takes. */
  static int length64(long address) throws WireException.CorruptRecords {
    if (Platform.getByte(null, address) >= 0) {
      return 1; // the usual case: records of a batch are close in time
    }
    if (Platform.getByte(null, address + 1) >= 0) {
      return 2;
    }
    for (int i = 2; i < 10; i++) {
      if (Platform.getByte(null, address + i) >= 0) {
        return i + 1;
      }
    }
    throw new WireException.CorruptRecords("A record has a number of more than 64 bits");
  }
}
