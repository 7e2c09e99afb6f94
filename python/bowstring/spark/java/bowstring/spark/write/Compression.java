package bowstring.spark.write;

import bowstring.spark.wire.ClientOptions;
import bowstring.spark.wire.DirectMemory;
import bowstring.spark.wire.WireException;
import com.github.luben.zstd.Zstd;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Locale;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import net.jpountz.lz4.LZ4Compressor;
import net.jpountz.lz4.LZ4Factory;
import org.xerial.snappy.Snappy;

/** Codecs of record batches, in Kafka's framings. Buffers are direct; nothing passes through the heap. */
enum Compression {
  NONE("none", 0, 0, 0),
  GZIP("gzip", 1, 9, Deflater.DEFAULT_COMPRESSION),
  SNAPPY("snappy", 0, 0, 0),
  LZ4("lz4", 1, 17, 9),
  ZSTD("zstd", -131_072, 22, 3);

  /** Block size of Kafka's LZ4 and of xerial's snappy framing. */
  private static final int LZ4_BLOCK_BYTES = 64 << 10;

  private static final int SNAPPY_BLOCK_BYTES = 32 << 10;

  private static final int LZ4_MAGIC = 0x184D2204;

  /** Version 1, independent blocks, blocks of 64 KiB, and the checksum of these two bytes. */
  private static final byte[] LZ4_DESCRIPTOR = {0x60, 0x40, (byte) 0x82};

  private static final int LZ4_INCOMPRESSIBLE = 0x80000000;
  private static final byte[] SNAPPY_HEADER = {(byte) 0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1};
  private static final byte[] GZIP_HEADER = {0x1f, (byte) 0x8b, 8, 0, 0, 0, 0, 0, 0, (byte) 255};

  /** The codec's name in kafka.compression.type; its ordinal is the value in a batch's attributes. */
  final String label;

  private final int minLevel;
  private final int maxLevel;
  private final int defaultLevel;

  Compression(String label, int minLevel, int maxLevel, int defaultLevel) {
    this.label = label;
    this.minLevel = minLevel;
    this.maxLevel = maxLevel;
    this.defaultLevel = defaultLevel;
  }

  /** The codec with that name; null means none. */
  static Compression of(String label) {
    for (Compression each : values()) {
      if (each.label.equals(label == null ? "none" : label.trim().toLowerCase(Locale.ROOT))) {
        return each;
      }
    }
    throw new IllegalArgumentException(
        "Option 'kafka.compression.type' is '" + label + "': give none, gzip, snappy, lz4 or zstd");
  }

  /** The level set by kafka.compression.&lt;codec&gt;.level. */
  int level(ClientOptions options) {
    if (maxLevel == 0) {
      return 0;
    }
    String name = "compression." + label + ".level";
    int level = (int) options.getLong(name, defaultLevel, Math.min(minLevel, defaultLevel));
    if (level > maxLevel || level == 0 && this == GZIP) {
      throw new IllegalArgumentException("Option 'kafka." + name + "' is " + level + ": give a number from "
          + minLevel + " to " + maxLevel);
    }
    return level;
  }

  /**
   * Compresses the rest of {@code source} after the first {@code headroom} bytes of a new buffer.
   *
   * @return a buffer of {@link DirectMemory}, from 0 to the end of the compressed bytes; the caller frees it
   */
  ByteBuffer compress(ByteBuffer source, int level, int headroom) throws IOException {
    ByteBuffer target = DirectMemory.allocate(headroom + bound(source.remaining()), "a compressed batch");
    target.position(headroom);
    try {
      switch (this) {
        case GZIP -> gzip(source, target, level);
        case SNAPPY -> snappy(source, target);
        case LZ4 -> lz4(source, target, level);
        case ZSTD -> zstd(source, target, level);
        default -> target.put(source);
      }
    } catch (IOException | RuntimeException failed) {
      DirectMemory.free(target);
      throw failed;
    }
    return target.flip();
  }

  /** Enough for the worst case of any codec: its own bound for incompressible data and the framing. */
  private static long bound(int size) {
    return size + (long) size / 6 + 64 * (2L + size / SNAPPY_BLOCK_BYTES);
  }

  private static void gzip(ByteBuffer source, ByteBuffer target, int level) throws WireException {
    CRC32 crc = new CRC32();
    crc.update(source.duplicate());
    int size = source.remaining();
    Deflater deflater = new Deflater(level, true);
    try {
      target.put(GZIP_HEADER);
      deflater.setInput(source);
      deflater.finish();
      while (!deflater.finished()) {
        if (deflater.deflate(target) == 0 && !target.hasRemaining()) {
          throw new SinkException("gzip compressed " + size + " bytes to more than its upper bound");
        }
      }
    } finally {
      deflater.end();
    }
    target.order(ByteOrder.LITTLE_ENDIAN).putInt((int) crc.getValue()).putInt(size).order(ByteOrder.BIG_ENDIAN);
  }

  private static void snappy(ByteBuffer source, ByteBuffer target) throws IOException {
    target.put(SNAPPY_HEADER);
    while (source.hasRemaining()) {
      int size = Math.min(source.remaining(), SNAPPY_BLOCK_BYTES);
      ByteBuffer into = target.duplicate().position(target.position() + 4);
      int length = Snappy.compress(source.duplicate().limit(source.position() + size), into);
      target.putInt(length).position(target.position() + length);
      source.position(source.position() + size);
    }
  }

  private static void lz4(ByteBuffer source, ByteBuffer target, int level) {
    LZ4Factory factory = LZ4Factory.fastestInstance();
    LZ4Compressor compressor = level == LZ4.defaultLevel ? factory.fastCompressor() : factory.highCompressor(level);
    target.order(ByteOrder.LITTLE_ENDIAN).putInt(LZ4_MAGIC).put(LZ4_DESCRIPTOR);
    while (source.hasRemaining()) {
      int from = source.position();
      int size = Math.min(source.remaining(), LZ4_BLOCK_BYTES);
      int to = target.position() + 4;
      int length = compressor.compress(source, from, size, target, to, target.capacity() - to);
      if (length < size) {
        target.putInt(length).position(to + length);
      } else {
        target.putInt(size | LZ4_INCOMPRESSIBLE).put(source.duplicate().limit(from + size));
      }
      source.position(from + size);
    }
    target.putInt(0).order(ByteOrder.BIG_ENDIAN); // the end mark
  }

  private static void zstd(ByteBuffer source, ByteBuffer target, int level) throws WireException {
    long length = Zstd.compressDirectByteBuffer(target, target.position(), target.remaining(), source,
        source.position(), source.remaining(), level);
    if (Zstd.isError(length)) {
      throw new SinkException("zstd could not compress a batch: " + Zstd.getErrorName(length));
    }
    target.position(target.position() + (int) length);
  }
}
