package bowstring.spark.write;

import bowstring.spark.wire.DirectMemory;
import bowstring.spark.wire.WireException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;

/** A task's buffers for batches, kept by size for the next batch. The user of a buffer returns it; one thread only. */
final class BufferPool implements AutoCloseable {
  /** Initial size of a batch: a task that writes little to many partitions must not use much memory for each. */
  static final int SMALLEST_BYTES = 16 << 10;

  @SuppressWarnings({"unchecked", "rawtypes"})
  private final ArrayDeque<ByteBuffer>[] free = new ArrayDeque[32];

  private long usedBytes;

  /** A buffer of at least {@code size} bytes. */
  ByteBuffer take(int size) throws WireException.TooLarge {
    int order = order(size);
    ByteBuffer kept = free[order] == null ? null : free[order].pollFirst();
    ByteBuffer buffer = kept != null ? kept : DirectMemory.allocate(capacity(order), "a batch of records");
    usedBytes += DirectMemory.capacity(buffer);
    return buffer.clear();
  }

  /** Takes back a buffer from {@link #take}. */
  void give(ByteBuffer buffer) {
    usedBytes -= DirectMemory.capacity(buffer);
    int order = order(DirectMemory.capacity(buffer));
    if (free[order] == null) {
      free[order] = new ArrayDeque<>();
    }
    free[order].addFirst(buffer);
  }

  /** Bytes of the buffers in use. */
  long usedBytes() {
    return usedBytes;
  }

  /** Usable bytes of the buffer that {@link #take} returns for a size. */
  static int capacityFor(int size) {
    return (int) capacity(order(size));
  }

  private static int order(int size) {
    return 32 - Integer.numberOfLeadingZeros(Math.max(size, SMALLEST_BYTES) - 1);
  }

  private static long capacity(int order) {
    return Math.min(1L << order, Integer.MAX_VALUE - 1024);
  }

  /** Frees the returned buffers. */
  @Override
  public void close() {
    for (ArrayDeque<ByteBuffer> kept : free) {
      while (kept != null && !kept.isEmpty()) {
        DirectMemory.free(kept.pollFirst());
      }
    }
  }
}
