package bowstring.spark.decode;

import bowstring.spark.wire.WireException;
import com.github.luben.zstd.ZstdDecompressCtx;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.util.zip.GZIPInputStream;
import org.xerial.snappy.Snappy;

/** Decompresses a record batch's records, with the libraries that Spark ships. */
final class Decompressor implements Closeable {
  private static final int CHUNK_BYTES = 64 << 10;

  /** First eight bytes of snappy-java's stream format, which Java's producer writes (others write plain snappy). */
  private static final long XERIAL_MAGIC = 0x82534e4150505900L;

  private static final int XERIAL_HEADER_BYTES = 16;

  /** A copy of 64 bytes takes at least two: a higher ratio means damaged data. */
  private static final int MOST_SNAPPY_GROWTH = 64;

  private static final String[] CODECS = {"uncompressed", "gzip", "snappy", "lz4", "zstd"};

  private final Arena arena;
  private final int mostBytes;
  private final byte[] chunk = new byte[CHUNK_BYTES];
  private ZstdDecompressCtx zstd;

  /**
   * A decompressor that writes to {@code arena}.
   *
   * @param mostBytes what one batch may become
   */
  Decompressor(Arena arena, int mostBytes) {
    this.arena = arena;
    this.mostBytes = mostBytes;
  }

  /**
   * Appends the decompressed records to the arena.
   *
   * @param source the compressed bytes, outside the heap
   * @return where they begin in the arena; they end at its new {@link Arena#used}
   * @throws WireException.TooLarge if they are more than a batch may become
   */
  int decompress(int compression, ByteBuffer source, long baseOffset) throws WireException {
    int begin = arena.used();
    arena.bind(mostBytes);
    try {
      switch (compression) {
        case 1 -> gzip(source);
        case 2 -> snappy(source);
        case 3 -> Lz4Frame.decompress(source, arena);
        case 4 -> zstd(source);
        default -> throw new WireException.CorruptRecords("compression type " + compression + " is unknown");
      }
      arena.checkBound();
    } catch (Arena.BeyondBound bomb) {
      throw new WireException.TooLarge("The " + CODECS[compression] + " record batch at offset " + baseOffset
          + " decompresses to more than " + mostBytes + " bytes: raise kafka.max.decompressed.batch.bytes to read it, or "
          + "write smaller batches", bomb);
    } catch (WireException.TooLarge tooLarge) {
      throw tooLarge;
    } catch (IOException | RuntimeException failed) {
      throw new WireException.CorruptRecords("The compressed record batch at offset " + baseOffset
          + " cannot be decompressed: " + failed.getMessage(), failed);
    } finally {
      arena.unbind();
    }
    return begin;
  }

  private void gzip(ByteBuffer source) throws IOException {
    try (GZIPInputStream in = new GZIPInputStream(new BufferInput(source), 8 << 10)) {
      for (int n = in.read(chunk); n >= 0; n = in.read(chunk)) {
        arena.room(n).put(chunk, 0, n);
      }
    }
  }

  private void snappy(ByteBuffer source) throws IOException {
    int begin = source.position();
    if (source.remaining() < XERIAL_HEADER_BYTES || source.getLong(begin) != XERIAL_MAGIC) {
      snappyBlock(source);
      return;
    }
    ByteBuffer block = source.duplicate();
    int at = begin + XERIAL_HEADER_BYTES;
    while (at < source.limit()) {
      int length = source.getInt(at);
      at += 4;
      if (length < 0 || length > source.limit() - at) {
        throw new WireException.CorruptRecords("a snappy block has the invalid length " + length);
      }
      block.limit(at + length).position(at);
      snappyBlock(block);
      at += length;
    }
  }

  private void snappyBlock(ByteBuffer block) throws IOException {
    int length = Snappy.uncompressedLength(block.duplicate());
    if (length < 0 || length > MOST_SNAPPY_GROWTH * (long) block.remaining() + CHUNK_BYTES) {
      throw new WireException.CorruptRecords("a snappy block has the invalid uncompressed length " + length);
    }
    arena.checkRoom(length);
    ByteBuffer target = arena.room(length);
    int begin = target.position();
    Snappy.uncompress(block, target);
    target.limit(target.capacity()).position(begin + length);
  }

  private void zstd(ByteBuffer source) throws IOException {
    if (zstd == null) {
      zstd = new ZstdDecompressCtx();
    }
    zstd.reset();
    while (true) {
      ByteBuffer target = arena.room(CHUNK_BYTES);
      int written = target.position();
      int read = source.position();
      boolean frameEnded = zstd.decompressDirectByteBufferStream(target, source);
      if (frameEnded && !source.hasRemaining()) {
        return;
      }
      if (target.position() == written && source.position() == read) {
        throw new WireException.CorruptRecords("the zstd frame is truncated");
      }
    }
  }

  @Override
  public void close() {
    if (zstd != null) {
      zstd.close();
      zstd = null;
    }
  }

  private static final class BufferInput extends InputStream {
    private final ByteBuffer source;

    BufferInput(ByteBuffer source) {
      this.source = source;
    }

    @Override
    public int read() {
      return source.hasRemaining() ? source.get() & 0xff : -1;
    }

    @Override
    public int read(byte[] into, int offset, int length) {
      if (!source.hasRemaining()) {
        return length == 0 ? 0 : -1;
      }
      int n = Math.min(length, source.remaining());
      source.get(into, offset, n);
      return n;
    }

    @Override
    public int available() {
      return source.remaining(); // GZIPInputStream checks here for another member
    }
  }
}
