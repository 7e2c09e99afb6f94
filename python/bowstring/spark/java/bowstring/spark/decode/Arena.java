package bowstring.spark.decode;

import bowstring.spark.wire.DirectMemory;
import bowstring.spark.wire.WireException;
import java.io.Closeable;
import java.nio.ByteBuffer;

/** Growing memory outside the heap for decompressed records. Written bytes may move when more room is requested. */
final class Arena implements Closeable {
  private ByteBuffer buffer;

  /** The buffer with room for {@code bytes} behind its position. */
  ByteBuffer room(int bytes) throws WireException.TooLarge {
    int used = buffer == null ? 0 : buffer.position();
    if (buffer == null || DirectMemory.capacity(buffer) - used < bytes) {
      long needed = (long) used + bytes;
      long wanted = Math.max(needed, Math.min(2L * used, Integer.MAX_VALUE - 1024));
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
