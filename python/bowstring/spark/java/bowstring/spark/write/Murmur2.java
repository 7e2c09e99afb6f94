package bowstring.spark.write;

import java.nio.ByteOrder;
import org.apache.spark.unsafe.Platform;

/** The hash with which Kafka's Java producer assigns keys to partitions; equal keys must get the same partition. */
final class Murmur2 {
  private static final int SEED = 0x9747b28c;
  private static final int M = 0x5bd1e995;
  private static final boolean LITTLE_ENDIAN = ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN;

  private Murmur2() {}

  /** The partition of a key, as the Java producer's default partitioner chooses it. */
  static int partition(Object base, long offset, int length, int partitions) {
    return (hash(base, offset, length) & Integer.MAX_VALUE) % partitions;
  }

  static int hash(Object base, long offset, int length) {
    int h = SEED ^ length;
    int words = length & ~3;
    for (int i = 0; i < words; i += 4) {
      int k = Platform.getInt(base, offset + i);
      k = (LITTLE_ENDIAN ? k : Integer.reverseBytes(k)) * M;
      h = h * M ^ (k ^ k >>> 24) * M;
    }
    int rest = 0;
    for (int i = length - 1; i >= words; i--) {
      rest = rest << 8 | Platform.getByte(base, offset + i) & 0xff;
    }
    if (length != words) {
      h = (h ^ rest) * M;
    }
    h ^= h >>> 13;
    h *= M;
    return h ^ h >>> 15;
  }
}
