package bowstring.spark.local;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * The broker's answer: the readable bytes of segment files from an offset on.
 *
 * @param nextOffset where the next request begins; -1 means after the last record of the last batch
 * @param segments ascending
 * @param aborted producer id and first offset of each aborted transaction, alternating
 */
public record LocalSegments(long nextOffset, List<Segment> segments, long[] aborted) {
  /**
   * The readable part of one file.
   *
   * @param device and inode that the file must have when it is opened by its path
   * @param start position of its first batch, end of the readable part
   */
  public record Segment(long baseOffset, long endOffset, long device, long inode, long start, long end, String path) {}

  /** Reads an answer after its header; BufferUnderflowException if it is incomplete. */
  static LocalSegments read(ByteBuffer from) {
    skip(from, 16 + 4 + 8 + 8 + 8); // topic id, leader epoch, log start, high watermark, LSO
    long nextOffset = from.getLong();
    from.getLong(); // history: nothing is cached between answers
    List<Segment> segments = new ArrayList<>();
    for (int n = from.getShort(); n > 0; n--) {
      long baseOffset = from.getLong();
      long endOffset = from.getLong();
      long device = from.getLong();
      long inode = from.getLong();
      long start = from.getLong();
      long end = from.getLong();
      from.get(); // flags: whether it still grows
      segments.add(new Segment(baseOffset, endOffset, device, inode, start, end, LocalConnection.string(from)));
      int checked = from.getShort();
      skip(from, 16 * checked); // positions that the broker has checked; they are checked again here
    }
    int transactions = from.getInt();
    if (transactions < 0 || transactions > from.remaining() / 16) {
      throw new BufferUnderflowException();
    }
    long[] aborted = new long[2 * transactions];
    for (int i = 0; i < aborted.length; i++) {
      aborted[i] = from.getLong();
    }
    return new LocalSegments(nextOffset, segments, aborted);
  }

  private static void skip(ByteBuffer from, int bytes) {
    if (bytes < 0 || bytes > from.remaining()) {
      throw new BufferUnderflowException();
    }
    from.position(from.position() + bytes);
  }
}
