package bowstring.spark.decode;

import bowstring.spark.wire.DirectMemory;
import bowstring.spark.wire.WireException;
import java.io.Closeable;
import java.nio.ByteBuffer;

/** Growing memory outside the heap for decompressed records. Written bytes may move when more room is requested. */
final class Arena implements Closeable {
  /** What one reservation may exceed the bound by: it says how much may be written, not how much will be. */
  private static final int RESERVED_BYTES = 4 << 20;

  private ByteBuffer buffer;
  private long bound = Long.MAX_VALUE;

  /** More was written than the bound allows. */
  static final class BeyondBound extends WireException {
    private static final long serialVersionUID = 1L;

    BeyondBound() {
      super("more bytes than allowed");
    }
  }

  /** From here on at most {@code bytes} may be written, until {@link #unbind}. */
  void bind(int bytes) {
    bound = used() + (long) bytes;
  }

  void unbind() {
    bound = Long.MAX_VALUE;
  }

  /** Fails if more was written than the bound allows. */
  void checkBound() throws BeyondBound {
    if (used() > bound) {
      throw new BeyondBound();
    }
  }

  /** Fails if {@code bytes} more are beyond the bound. */
  void checkRoom(int bytes) throws BeyondBound {
    if (used() + (long) bytes > bound) {
      throw new BeyondBound();
    }
  }

  /** The buffer with room for {@code bytes} behind its position. */
  ByteBuffer room(int bytes) throws WireException.TooLarge, BeyondBound {
    checkBound();
    int used = buffer == null ? 0 : buffer.position();
    if (buffer == null || DirectMemory.capacity(buffer) - used < bytes) {
      long needed = (long) used + bytes;
      long most = Math.min(Integer.MAX_VALUE - 1024, bound == Long.MAX_VALUE ? bound : bound + RESERVED_BYTES);
      long wanted = Math.max(needed, Math.min(2L * used, most));
      ByteBuffer larger = DirectMemory.allocate(Math.max(wanted, 1 << 20), "a decompressed record batch");
      if (buffer != null) {
        larger.put(buffer.flip());
        DirectMemory.free(buffer);
      }
      buffer = larger;
    }
    return buffer.limit(DirectMemory.capacity(buffer));
  }

  int used() {
    return buffer == null ? 0 : buffer.position();
  }

  void clear() {
    if (buffer != null) {
      buffer.clear();
    }
  }

  /** Frees memory beyond {@code bytes}; written bytes are lost. */
  void shrink(int bytes) {
    if (buffer != null && DirectMemory.capacity(buffer) > bytes) {
      close();
    }
  }

  long address() {
    return buffer == null ? 0 : DirectMemory.address(buffer);
  }

  @Override
  public void close() {
    ByteBuffer freed = buffer;
    buffer = null;
    DirectMemory.free(freed);
  }
}
