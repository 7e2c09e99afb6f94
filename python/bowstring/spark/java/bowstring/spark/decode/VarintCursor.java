package bowstring.spark.decode;

import bowstring.spark.wire.WireException;
import org.apache.spark.unsafe.Platform;

/**
 * Reads variable-length numbers one after another.
 *
 * <p>For the decoder's loop, which takes half as long as with {@link Varints}: the object does not outlive the method
 * that creates it and is passed only to inlined methods, so that the compiler keeps its position in a register. Lengths
 * that are the same in all records cost only a correctly predicted branch. Up to ten bytes are read from each position,
 * which the caller must guarantee ({@code DirectMemory.SLACK}).
 */
final class VarintCursor {
  /** Address of the next number. */
  long at;

  VarintCursor(long at) {
    this.at = at;
  }

  /** The next number, of up to 32 bits. */
  int next() throws WireException.CorruptRecords {
    int raw = Platform.getByte(null, at++);
    if (raw < 0) {
      int second = Platform.getByte(null, at++);
      raw = raw & 0x7f | second << 7;
      if (second < 0) {
        long read = Varints.read(at - 2);
        at += Varints.length(read) - 2;
        return Varints.value(read);
      }
    }
    return raw >>> 1 ^ -(raw & 1);
  }

  /** Skips the next number, of up to 64 bits. */
  void skip64() throws WireException.CorruptRecords {
    if (Platform.getByte(null, at) >= 0) {
      at++;
    } else {
      at += Varints.length64(at);
    }
  }
}
