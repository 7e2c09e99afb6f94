package bowstring.spark.decode;

import bowstring.spark.wire.WireException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import net.jpountz.lz4.LZ4Factory;
import net.jpountz.lz4.LZ4SafeDecompressor;

/**
 * The LZ4 frame format as Kafka uses it: independent blocks (KIP-57).
 *
 * <p>Checksums inside the frame are not checked: the record batch's own covers the same bytes.
 */
final class Lz4Frame {
  private static final int MAGIC = 0x184D2204;
  private static final int FLAG_INDEPENDENT_BLOCKS = 0x20;
  private static final int FLAG_BLOCK_CHECKSUMS = 0x10;
  private static final int FLAG_CONTENT_SIZE = 0x08;
  private static final int FLAG_DICTIONARY = 0x01;
  private static final int STORED = 0x80000000;

  private Lz4Frame() {}

  static void decompress(ByteBuffer frame, Arena arena) throws WireException {
    ByteBuffer in = frame.duplicate().order(ByteOrder.LITTLE_ENDIAN);
    if (in.remaining() < 7 || in.getInt() != MAGIC) {
      throw new WireException.CorruptRecords("the data does not begin with an LZ4 frame");
    }
    int flags = in.get();
    int blockSizeCode = in.get() >> 4 & 7;
    if ((flags & 0xc0) != 0x40 || blockSizeCode < 4 || (flags & FLAG_DICTIONARY) != 0) {
      throw new WireException.CorruptRecords("the LZ4 frame has flags that Kafka does not use");
    }
    if ((flags & FLAG_INDEPENDENT_BLOCKS) == 0) {
      throw new WireException.CorruptRecords("the LZ4 frame has blocks that depend on each other, which Kafka's "
          + "clients do not read either");
    }
    in.position(in.position() + ((flags & FLAG_CONTENT_SIZE) != 0 ? 8 : 0) + 1); // and the header's checksum
    int largestBlock = 1 << 2 * blockSizeCode + 8;
    LZ4SafeDecompressor decompressor = LZ4Factory.fastestInstance().safeDecompressor();
    while (true) {
      int size = in.getInt();
      if (size == 0) {
        return;
      }
      int length = size & ~STORED;
      if (length > in.remaining()) {
        throw new WireException.CorruptRecords("an LZ4 block has the invalid length " + length);
      }
      ByteBuffer out = arena.room(Math.max(largestBlock, length));
      if ((size & STORED) != 0) {
        out.put(in.duplicate().limit(in.position() + length));
      } else {
        int n = decompressor.decompress(in, in.position(), length, out, out.position(), largestBlock);
        out.position(out.position() + n);
      }
      in.position(in.position() + length + ((flags & FLAG_BLOCK_CHECKSUMS) != 0 ? 4 : 0));
    }
  }
}
