package bowstring.spark.decode;

import bowstring.spark.wire.DirectMemory;
import bowstring.spark.wire.WireException;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.util.OptionalLong;
import java.util.zip.CRC32C;
import org.apache.spark.unsafe.Platform;

/**
 * Decodes regions of record batches (a fetch response's records, a mapped part of a segment) into {@link
 * RecordColumns}.
 *
 * <p>{@link #begin} passes a region; then call {@link #next} until it returns false. The columns point into the region
 * (or into memory of this object, for compressed batches) and are valid until the following call. One columnar batch
 * never mixes compressed with plain batches, nor timestamp types. Nothing outside the region and its slack is read,
 * whatever its bytes are.
 */
public final class RecordDecoder implements Closeable {
  /** A columnar batch accepts no further record batch once it has this many rows… */
  private static final int ENOUGH_ROWS = 1 << 16;

  /** … or this many decompressed bytes. */
  private static final int ENOUGH_BYTES = 8 << 20;

  private static final int ABORT_MARKER = 0;

  /** Most records of a compressed batch that are accepted from its header without decoding. */
  private static final int MOST_COUNTED = 1 << 26;

  private final RecordColumns columns;
  private final boolean checkCrcs;
  private final boolean readCommitted;
  private final long minTimestampMs;
  private final Arena arena = new Arena();
  private final Decompressor decompressor;
  private final CRC32C crc = new CRC32C();
  private final BatchFrame frame = new BatchFrame();

  private ByteBuffer region;
  private long regionAddress;
  private int position;
  private int limit;
  private boolean hasSlack;
  private AbortedTransactions aborted = AbortedTransactions.none();
  private long nextOffset;
  private boolean passedEnd;

  /**
   * A decoder that fills {@code columns}.
   *
   * @param minTimestampMs batches whose records are all older may be left out; Long.MIN_VALUE leaves none out
   * @param mostBatchBytes what a compressed batch may become
   */
  public RecordDecoder(RecordColumns columns, boolean checkCrcs, boolean readCommitted, long minTimestampMs,
      int mostBatchBytes) {
    this.columns = columns;
    this.checkCrcs = checkCrcs;
    this.readCommitted = readCommitted;
    this.minTimestampMs = minTimestampMs;
    this.decompressor = new Decompressor(arena, mostBatchBytes);
  }

  /**
   * Passes the next region.
   *
   * @param region memory outside the heap, record batches from {@code position} to {@code limit} (absolute indexes);
   *     the last may be incomplete
   * @param hasSlack whether {@code DirectMemory.SLACK} bytes after the limit may be read
   * @param abortedTransactions of the fetch response; used only if committed records are read
   */
  public void begin(ByteBuffer region, int position, int limit, boolean hasSlack,
      AbortedTransactions abortedTransactions) {
    this.region = region;
    this.regionAddress = DirectMemory.address(region);
    this.position = position;
    this.limit = limit;
    this.hasSlack = hasSlack;
    this.aborted = abortedTransactions;
    this.nextOffset = -1;
    this.passedEnd = false;
  }

  /** The offset after the last complete batch of a region, from its headers alone; -1 if no batch is complete. */
  public static long endOffset(ByteBuffer region, int position, int limit) throws WireException.CorruptRecords {
    long at = DirectMemory.address(region) + position;
    long end = at + limit - position;
    long result = -1;
    while (BatchHeader.isWhole(at, end - at)) {
      BatchHeader.check(at);
      result = BatchHeader.baseOffset(at) + BatchHeader.lastOffsetDelta(at) + 1;
      at += BatchHeader.size(at);
    }
    return result;
  }

  /** Bytes of the complete batches at the start of a region. */
  public static long wholeBytes(ByteBuffer region, int position, int limit) throws WireException.CorruptRecords {
    long at = DirectMemory.address(region) + position;
    long end = at + limit - position;
    while (BatchHeader.isWhole(at, end - at)) {
      at += BatchHeader.size(at);
    }
    return at - DirectMemory.address(region) - position;
  }

  /** Bytes of the first batch of a region by its header, complete or not; 0 if the header is incomplete. */
  public static long firstBatchBytes(ByteBuffer region, int position, int limit) {
    return limit - position < BatchHeader.SIZE ? 0 : BatchHeader.size(DirectMemory.address(region) + position);
  }

  /** The base timestamp of a region's first batch; empty if the region has none, or the batch none. */
  public static OptionalLong firstTimestampMs(ByteBuffer region, int position, int limit) {
    if (limit - position < BatchHeader.SIZE) {
      return OptionalLong.empty();
    }
    long timestamp = BatchHeader.baseTimestampMs(DirectMemory.address(region) + position);
    return timestamp < 0 ? OptionalLong.empty() : OptionalLong.of(timestamp);
  }

  /** The offset after the last batch that was decoded or skipped in this region; -1 before the first. */
  public long nextOffset() {
    return nextOffset;
  }

  /** Index of the first byte of the region that is not processed yet. */
  public int position() {
    return position;
  }

  /** Whether a batch at or beyond the end of the range was found. */
  public boolean passedEnd() {
    return passedEnd;
  }

  /** What the last {@link #next} filled. */
  public RecordColumns columns() {
    return columns;
  }

  /**
   * Fills the columns with the next records of the region that have offsets in [start, end).
   *
   * @return false if the region has no more of them
   */
  public boolean next(long start, long end) throws WireException {
    columns.clear();
    arena.clear();
    columns.base = regionAddress;
    boolean inArena = false;
    while (columns.rows < ENOUGH_ROWS && arena.used() < ENOUGH_BYTES && !passedEnd) {
      long batch = regionAddress + position;
      if (!BatchHeader.isWhole(batch, limit - position)) {
        break;
      }
      frame.read(batch);
      if (frame.baseOffset >= end) {
        passedEnd = true;
        break;
      }
      boolean skipped = frame.nextOffset <= start || frame.maxTimestampMs < minTimestampMs;
      boolean compressed = BatchHeader.compression(frame.attributes) != 0;
      boolean outside = compressed || !hasSlack && position + frame.size + DirectMemory.SLACK > limit;
      boolean mixes = inArena != outside || columns.timestampType != frame.timestampType;
      if (!skipped && mixes && columns.rows > 0) {
        break;
      }
      checkCrc(batch);
      position += frame.size;
      nextOffset = frame.nextOffset;
      if (isHidden(batch) || skipped) {
        continue;
      }
      inArena = outside;
      columns.timestampType = frame.timestampType;
      add(batch, start, end, outside);
    }
    return columns.rows > 0;
  }

  private void add(long batch, long start, long end, boolean outside) throws WireException {
    boolean inside = frame.baseOffset >= start && frame.nextOffset <= end;
    if (inside && isPlausible() && columns.canCount(frame.count, frame.lastOffsetDelta)) {
      columns.addCounted(frame.count, frame.baseOffset);
      return;
    }
    if (!outside) {
      columns.addRecords(batch + BatchHeader.SIZE, batch + frame.size, frame, start, end);
      return;
    }
    int records = (int) (batch - regionAddress) + BatchHeader.SIZE;
    ByteBuffer source = region.duplicate();
    source.limit(records + frame.size - BatchHeader.SIZE).position(records);
    int compression = BatchHeader.compression(frame.attributes);
    int from = arena.used();
    if (compression != 0) {
      decompressor.decompress(compression, source, frame.baseOffset);
    } else {
      arena.room(source.remaining()).put(source);
    }
    columns.base = arena.address(); // the arena may have moved; positions are relative and stay valid
    columns.addRecords(columns.base + from, columns.base + arena.used(), frame, start, end);
  }

  /** Whether the batch can have that many records; if not, decoding it reports the error. */
  private boolean isPlausible() {
    return BatchHeader.compression(frame.attributes) == 0
        ? frame.count <= (frame.size - BatchHeader.SIZE) / BatchHeader.SMALLEST_RECORD_BYTES
        : frame.count <= MOST_COUNTED;
  }

  /** Control batches are always hidden; those of aborted transactions are hidden when committed records are read. */
  private boolean isHidden(long batch) {
    if (BatchHeader.isControl(frame.attributes)) {
      if (readCommitted && isAbortMarker(batch)) {
        aborted.abortMarker(frame.producerId, frame.nextOffset - 1);
      }
      return true;
    }
    return readCommitted && BatchHeader.isTransactional(frame.attributes)
        && aborted.isAborted(frame.producerId, frame.nextOffset - 1);
  }

  /** A marker's key is its version and its type, two bytes each, after five one-byte fields of the record. */
  private boolean isAbortMarker(long batch) {
    int keyAt = BatchHeader.SIZE + 5;
    return frame.size >= keyAt + 4 && BatchHeader.compression(frame.attributes) == 0
        && Short.reverseBytes(Platform.getShort(null, batch + keyAt + 2)) == ABORT_MARKER;
  }

  private void checkCrc(long batch) throws WireException.CorruptRecords {
    if (!checkCrcs) {
      return;
    }
    ByteBuffer covered = region.duplicate();
    covered.limit(position + frame.size).position(position + BatchHeader.ATTRIBUTES_OFFSET);
    crc.reset();
    crc.update(covered);
    if ((int) crc.getValue() != BatchHeader.crc(batch)) {
      throw new WireException.CorruptRecords("The record batch at offset " + frame.baseOffset
          + " fails its checksum: it was damaged on the broker's disk or on the network. To read it anyway, set "
          + "kafka.check.crcs=false");
    }
  }

  /** Frees memory of an unusually large batch. */
  public void shrink() {
    arena.shrink(2 * ENOUGH_BYTES);
  }

  @Override
  public void close() {
    decompressor.close();
    arena.close();
  }
}
