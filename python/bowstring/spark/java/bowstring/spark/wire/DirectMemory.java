package bowstring.spark.wire;

import io.netty.util.internal.PlatformDependent;
import java.nio.ByteBuffer;

/**
 * Memory outside the heap that is freed at a known moment, not by the garbage collector.
 *
 * <p>The code that allocates frees; nobody may use the buffer or its address afterwards. {@link #SLACK} bytes follow
 * every buffer, so that a decoder may read a few bytes beyond the end of its data without leaving the allocation.
 */
public final class DirectMemory {
  /** Bytes after the usable capacity that belong to the allocation. */
  public static final int SLACK = 64;

  private DirectMemory() {}

  /**
   * A buffer with at least {@code size} usable bytes.
   *
   * @throws WireException.TooLarge if the process may not have that much direct memory
   */
  public static ByteBuffer allocate(long size, String what) throws WireException.TooLarge {
    if (size > Integer.MAX_VALUE - SLACK - 8) {
      throw new WireException.TooLarge(what + " needs " + size + " bytes, more than one buffer can hold (2 GiB): "
          + "lower kafka.max.partition.fetch.bytes, or write smaller batches", null);
    }
    try {
      return ByteBuffer.allocateDirect((int) size + SLACK);
    } catch (OutOfMemoryError noMemory) {
      throw new WireException.TooLarge(what + " needs " + size + " bytes outside the heap, more than this process "
          + "may allocate: raise -XX:MaxDirectMemorySize, or lower kafka.max.partition.fetch.bytes", noMemory);
    }
  }

  /** Usable bytes of a buffer from {@link #allocate}. */
  public static int capacity(ByteBuffer buffer) {
    return buffer.capacity() - SLACK;
  }

  /** Address of the buffer's first byte (not of its position). */
  public static long address(ByteBuffer buffer) {
    return PlatformDependent.directBufferAddress(buffer);
  }

  /** Frees the memory now; null is ignored. */
  @SuppressWarnings("deprecation") // its replacement also allocates, and is missing in the Netty of older Sparks
  public static void free(ByteBuffer buffer) {
    if (buffer != null) {
      PlatformDependent.freeDirectBuffer(buffer);
    }
  }
}
