package bowstring.spark.write;

import org.apache.spark.unsafe.Platform;

/** Zigzag varints, as in records, at addresses outside the heap. */
final class Varint {
  private Varint() {}

  /** Bytes of a number. */
  static int size(long value) {
    long zigzag = value << 1 ^ value >> 63;
    return zigzag < 128 ? zigzag < 0 ? 10 : 1 : (70 - Long.numberOfLeadingZeros(zigzag)) / 7;
  }

  /** Writes a number; returns the address after it. */
  static long put(long address, long value) {
    long zigzag = value << 1 ^ value >> 63;
    long at = address;
    while ((zigzag & ~0x7fL) != 0) {
      Platform.putByte(null, at++, (byte) (zigzag | 0x80));
      zigzag >>>= 7;
    }
    Platform.putByte(null, at++, (byte) zigzag);
    return at;
  }

  /** Reads a number that {@link #put} wrote. */
  static long get(long address) {
    long zigzag = 0;
    long at = address;
    for (int shift = 0; ; shift += 7) {
      byte next = Platform.getByte(null, at++);
      zigzag |= (next & 0x7fL) << shift;
      if (next >= 0) {
        return zigzag >>> 1 ^ -(zigzag & 1);
      }
    }
  }
}
