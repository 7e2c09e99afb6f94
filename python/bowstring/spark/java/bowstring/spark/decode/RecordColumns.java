package bowstring.spark.decode;

import bowstring.spark.wire.WireException;
import java.util.Arrays;
import java.util.Set;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.array.ByteArrayMethods;

/**
 * The records of one columnar batch as arrays: offsets and timestamps by value; keys, values and headers as positions
 * and lengths relative to one base address. Their bytes stay where they were received, mapped or decompressed.
 *
 * <p>Only the requested columns are filled. The arrays are reused from batch to batch.
 */
public final class RecordColumns {
  private static final int FIRST_CAPACITY = 1 << 12;
  private static final long MOST_MS = Long.MAX_VALUE / 1000;

  final boolean wantsKey;
  final boolean wantsValue;
  final boolean wantsOffset;
  final boolean wantsTimestamp;
  final boolean wantsHeaders;

  int rows;
  long base;
  int timestampType;
  int[] keyAt = new int[0];
  int[] keyLength = new int[0];
  int[] valueAt = new int[0];
  int[] valueLength = new int[0];
  long[] offsets = new long[0];
  long[] timestampsMicros = new long[0];
  int nullKeys;
  int nullValues;
  final HeaderColumns headers;
  private int capacity;

  /** Columns by their names in the source's schema; others (topic, partition, timestampType) need no arrays. */
  public RecordColumns(Set<String> names) {
    wantsKey = names.contains("key");
    wantsValue = names.contains("value");
    wantsOffset = names.contains("offset");
    wantsTimestamp = names.contains("timestamp");
    wantsHeaders = names.contains("headers");
    headers = wantsHeaders ? new HeaderColumns() : null;
    grow(FIRST_CAPACITY);
  }

  /** Rows of the current batch. */
  public int rows() {
    return rows;
  }

  /** Address that positions are relative to. */
  public long base() {
    return base;
  }

  /** Start of each value, relative to {@link #base}; the first {@link #rows} entries are valid. */
  public int[] valueAt() {
    return valueAt;
  }

  /** Length of each value in bytes, -1 for null. */
  public int[] valueLength() {
    return valueLength;
  }

  /** Values of the current batch that are null. */
  public int nullValues() {
    return nullValues;
  }

  /**
   * Finds a header of each record; the last one of its name counts. Only if the column was requested.
   *
   * @param at filled with the place of each record's header, relative to {@link #base}
   * @param length filled with its bytes; -1 for a record without one, or with null
   */
  public void findHeaders(byte[] name, int[] at, int[] length) {
    for (int row = 0; row < rows; row++) {
      length[row] = -1;
      for (int i = headers.first[row] + headers.count[row] - 1; i >= headers.first[row]; i--) {
        if (headers.valueLength[i] >= 0 && headers.keyLength[i] == name.length
            && ByteArrayMethods.arrayEquals(null, base + headers.keyAt[i], name, Platform.BYTE_ARRAY_OFFSET, name.length)) {
          at[row] = headers.valueAt[i];
          length[row] = headers.valueLength[i];
          break;
        }
      }
    }
  }

  /** The offset of a row; only if the column was requested. */
  public long offset(int row) {
    return offsets[row];
  }

  /** The time of each record in microseconds; only if the column was requested. */
  public long[] timestampsMicros() {
    return timestampsMicros;
  }

  void clear() {
    rows = 0;
    nullKeys = 0;
    nullValues = 0;
    if (headers != null) {
      headers.clear();
    }
  }

  private boolean mustWalk() {
    return wantsKey || wantsValue || wantsTimestamp || wantsHeaders;
  }

  /** Whether a batch that is completely inside the range can be added from its header alone. */
  boolean canCount(int count, int lastOffsetDelta) {
    return !mustWalk() && (!wantsOffset || count == lastOffsetDelta + 1);
  }

  /** Adds the records of a batch if only their number, and perhaps the offsets, are needed. */
  void addCounted(int count, long baseOffset) {
    reserve(count);
    if (wantsOffset) {
      for (int i = 0; i < count; i++) {
        offsets[rows + i] = baseOffset + i;
      }
    }
    rows += count;
  }

  private void reserve(int more) {
    int needed = Math.addExact(rows, more);
    if (needed > capacity) {
      grow(Math.max(needed, capacity + capacity / 2));
    }
  }

  private void grow(int size) {
    capacity = size;
    if (wantsKey) {
      keyAt = Arrays.copyOf(keyAt, size);
      keyLength = Arrays.copyOf(keyLength, size);
    }
    if (wantsValue) {
      valueAt = Arrays.copyOf(valueAt, size);
      valueLength = Arrays.copyOf(valueLength, size);
    }
    if (wantsOffset) {
      offsets = Arrays.copyOf(offsets, size);
    }
    if (wantsTimestamp) {
      timestampsMicros = Arrays.copyOf(timestampsMicros, size);
    }
    if (headers != null) {
      headers.growRecords(size);
    }
  }

  /**
   * Adds the records of one batch that have offsets in [start, end).
   *
   * @param at address of the first record; the caller guarantees that {@code base} and {@code DirectMemory.SLACK} bytes
   *     after {@code limit} are readable
   */
  void addRecords(long at, long limit, BatchFrame batch, long start, long end) throws WireException.CorruptRecords {
    int count = batch.count;
    if (count > (limit - at) / BatchHeader.SMALLEST_RECORD_BYTES) {
      throw corrupt(batch, count + " records in " + (limit - at) + " bytes");
    }
    reserve(count);
    boolean inside = batch.baseOffset >= start && batch.nextOffset <= end;
    boolean timestampOfBatch = batch.timestampType == 1;
    VarintCursor cursor = new VarintCursor(at);
    int row = rows;
    for (int i = 0; i < count; i++) {
      int length = cursor.next();
      long recordEnd = cursor.at + length;
      if (recordEnd > limit || length < 0) {
        throw corrupt(batch, "a record that ends outside its batch");
      }
      cursor.at++; // attributes: none are defined
      long timestampAt = cursor.at;
      cursor.skip64();
      int delta = cursor.next();
      if (delta < 0 || delta > batch.lastOffsetDelta) {
        throw corrupt(batch, "a record with offset delta " + delta);
      }
      long offset = batch.baseOffset + delta;
      if (inside || offset >= start && offset < end) {
        if (wantsTimestamp) {
          timestampsMicros[row] = micros(batch,
              timestampOfBatch ? batch.maxTimestampMs : batch.baseTimestampMs + Varints.value64(timestampAt));
        }
        if (wantsOffset) {
          offsets[row] = offset;
        }
        addFields(cursor, recordEnd, row, batch);
        row++;
      }
      cursor.at = recordEnd;
    }
    if (cursor.at != limit) {
      throw corrupt(batch, (limit - cursor.at) + " bytes after its last record");
    }
    rows = row;
  }

  private void addFields(VarintCursor cursor, long recordEnd, int row, BatchFrame batch)
      throws WireException.CorruptRecords {
    if (!wantsKey && !wantsValue && !wantsHeaders) {
      return;
    }
    int length = cursor.next();
    if (length > recordEnd - cursor.at) {
      throw corrupt(batch, "a key that ends outside its record");
    }
    if (wantsKey) {
      keyAt[row] = (int) (cursor.at - base);
      keyLength[row] = length;
      nullKeys += length >>> 31;
    }
    cursor.at += Math.max(length, 0);
    if (!wantsValue && !wantsHeaders) {
      return;
    }
    length = cursor.next();
    if (length > recordEnd - cursor.at) {
      throw corrupt(batch, "a value that ends outside its record");
    }
    if (wantsValue) {
      valueAt[row] = (int) (cursor.at - base);
      valueLength[row] = length;
      nullValues += length >>> 31;
    }
    if (wantsHeaders) {
      headers.add(cursor.at + Math.max(length, 0), recordEnd, base, row, batch);
    }
  }

  private static long micros(BatchFrame batch, long ms) throws WireException.CorruptRecords {
    if (ms > MOST_MS || ms < -MOST_MS) {
      throw corrupt(batch, "a timestamp of " + ms + " ms, which Spark's timestamps cannot hold");
    }
    return ms * 1000;
  }

  static WireException.CorruptRecords corrupt(BatchFrame batch, String what) {
    return new WireException.CorruptRecords("The record batch at offset " + batch.baseOffset + " has " + what
        + ": it is damaged, or was written by a faulty client");
  }
}
