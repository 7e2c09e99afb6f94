package bowstring.spark.write;

import bowstring.spark.audit.WindowCounts;
import bowstring.spark.wire.DirectMemory;
import bowstring.spark.wire.TopicPartition;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.zip.CRC32C;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * One record batch (magic 2) that is filled, sealed and sent. Rows' bytes are copied once, to their place in it.
 *
 * <p>A sealed batch also keeps its records uncompressed, so that it can be split when a broker finds it too large.
 */
final class RecordBatch {
  static final int HEADER_BYTES = 61;

  private static final int LENGTH_AT = 8;
  private static final int EPOCH_AT = 12;
  private static final int MAGIC_AT = 16;
  private static final int CRC_AT = 17;
  private static final int ATTRIBUTES_AT = 21;
  private static final int LAST_OFFSET_DELTA_AT = 23;
  private static final int BASE_TIMESTAMP_AT = 27;
  private static final int MAX_TIMESTAMP_AT = 35;
  private static final int PRODUCER_ID_AT = 43;
  private static final int PRODUCER_EPOCH_AT = 51;
  private static final int BASE_SEQUENCE_AT = 53;
  private static final int COUNT_AT = 57;

  /** Set in the attributes of batches that are part of a transaction. */
  private static final int TRANSACTIONAL = 0x10;

  /** Maximum size of a length, attributes, two deltas, two lengths and a header count. */
  private static final int RECORD_OVERHEAD_BYTES = 5 + 1 + 10 + 5 + 5 + 5 + 5;

  final TopicPartition partition;

  /** When it was sealed: kafka.delivery.timeout.ms counts from here, however slowly the rows came. */
  long sealedNanos;

  /** Whether it is in flight. */
  boolean inFlight;

  /** The sequence number of its first record; -1 without idempotence. */
  int baseSequence = -1;

  private final BufferPool pool;
  private ByteBuffer buffer;
  private long address;
  private int position = HEADER_BYTES;
  private int count;
  private long baseTimestamp;
  private long minTimestamp;
  private long maxTimestamp;
  private ByteBuffer compressed;

  RecordBatch(TopicPartition partition, BufferPool pool) throws IOException {
    this.partition = partition;
    this.pool = pool;
    use(pool.take(BufferPool.SMALLEST_BYTES));
  }

  private void use(ByteBuffer taken) {
    buffer = taken;
    address = DirectMemory.address(taken);
  }

  /** An upper bound of a record's size in a batch. */
  static long sizeBound(RowRecord record) {
    long size = RECORD_OVERHEAD_BYTES + (long) Math.max(record.keyLength, 0) + Math.max(record.valueLength, 0);
    return record.headers == null ? size : size + headersSize(record);
  }

  private static long headersSize(RowRecord record) {
    long size = 0;
    for (int i = 0; i < record.headers.numElements(); i++) {
      InternalRow header = record.headers.getStruct(i, 2);
      size += 10 + header.getUTF8String(0).numBytes() + (header.isNullAt(1) ? 0 : header.getBinary(1).length);
    }
    return size;
  }

  /** Whether a record of that size fits when the batch may have {@code limit} bytes; the first always fits. */
  boolean hasRoom(long recordBytes, int limit) {
    return count == 0 || position + recordBytes <= limit;
  }

  /** Bytes that the pool would have to allocate for a record of that size. */
  long growth(long recordBytes) {
    long needed = position + recordBytes;
    return needed <= DirectMemory.capacity(buffer) ? 0 : BufferPool.capacityFor((int) needed);
  }

  /** Appends a record of at most {@code bound} bytes; returns its size. */
  int append(RowRecord record, long bound, long timestamp) throws IOException {
    if (position + bound > DirectMemory.capacity(buffer)) {
      grow((int) (position + bound));
    }
    if (count == 0) {
      baseTimestamp = minTimestamp = maxTimestamp = timestamp;
    }
    minTimestamp = Math.min(minTimestamp, timestamp);
    maxTimestamp = Math.max(maxTimestamp, timestamp);
    long delta = timestamp - baseTimestamp;
    int headerCount = record.headers == null ? 0 : record.headers.numElements();
    long headersBytes = headerCount == 0 ? 0 : encodedHeadersSize(record);
    int body = 1 + Varint.size(delta) + Varint.size(count) + Varint.size(record.keyLength)
        + Math.max(record.keyLength, 0) + Varint.size(record.valueLength) + Math.max(record.valueLength, 0)
        + Varint.size(headerCount) + (int) headersBytes;
    long at = Varint.put(address + position, body);
    Platform.putByte(null, at++, (byte) 0); // attributes
    at = Varint.put(at, delta);
    at = Varint.put(at, count);
    at = bytes(at, record.keyBase, record.keyOffset, record.keyLength);
    at = bytes(at, record.valueBase, record.valueOffset, record.valueLength);
    at = Varint.put(at, headerCount);
    if (headerCount > 0) {
      at = headers(at, record);
    }
    int before = position;
    position = (int) (at - address);
    count++;
    return position - before;
  }

  private static long bytes(long to, Object base, long offset, int length) {
    long at = Varint.put(to, length);
    if (length > 0) {
      Platform.copyMemory(base, offset, null, at, length);
      return at + length;
    }
    return at;
  }

  private static long encodedHeadersSize(RowRecord record) {
    long size = 0;
    for (int i = 0; i < record.headers.numElements(); i++) {
      InternalRow header = record.headers.getStruct(i, 2);
      int key = header.getUTF8String(0).numBytes();
      int value = header.isNullAt(1) ? RowRecord.NULL : header.getBinary(1).length;
      size += Varint.size(key) + key + Varint.size(value) + Math.max(value, 0);
    }
    return size;
  }

  private static long headers(long to, RowRecord record) {
    long at = to;
    for (int i = 0; i < record.headers.numElements(); i++) {
      InternalRow header = record.headers.getStruct(i, 2);
      UTF8String key = header.getUTF8String(0);
      at = bytes(at, key.getBaseObject(), key.getBaseOffset(), key.numBytes());
      byte[] value = header.isNullAt(1) ? null : header.getBinary(1);
      at = bytes(at, value, Platform.BYTE_ARRAY_OFFSET, value == null ? RowRecord.NULL : value.length);
    }
    return at;
  }

  private void grow(int needed) throws IOException {
    ByteBuffer larger = pool.take(needed);
    Platform.copyMemory(null, address, null, DirectMemory.address(larger), position);
    pool.give(buffer);
    use(larger);
  }

  /** Ends filling: compresses the records. {@link #stamp} writes the header. */
  void seal(SinkOptions options) throws IOException {
    sealedNanos = System.nanoTime();
    Compression compression = options.compression;
    int attributes = compression.ordinal() | (options.exactlyOnce ? TRANSACTIONAL : 0);
    if (compression != Compression.NONE) {
      ByteBuffer records = buffer.duplicate().position(HEADER_BYTES).limit(position);
      compressed = compression.compress(records, options.compressionLevel, HEADER_BYTES);
    }
    ByteBuffer batch = contents();
    batch.putLong(0, 0).putInt(LENGTH_AT, batch.limit() - EPOCH_AT).putInt(EPOCH_AT, -1).put(MAGIC_AT, (byte) 2);
    batch.putShort(ATTRIBUTES_AT, (short) attributes).putInt(LAST_OFFSET_DELTA_AT, count - 1);
    batch.putLong(BASE_TIMESTAMP_AT, baseTimestamp).putLong(MAX_TIMESTAMP_AT, maxTimestamp).putInt(COUNT_AT, count);
  }

  /** Writes producer and sequence number; again after a change of epoch. */
  void stamp(long producerId, short epoch, int sequence) {
    baseSequence = sequence;
    ByteBuffer batch = contents();
    batch.putLong(PRODUCER_ID_AT, producerId).putShort(PRODUCER_EPOCH_AT, epoch).putInt(BASE_SEQUENCE_AT, sequence);
    CRC32C crc = new CRC32C();
    crc.update(batch.position(ATTRIBUTES_AT));
    batch.putInt(CRC_AT, (int) crc.getValue());
  }

  /** The sealed batch, from 0 to its end. */
  ByteBuffer contents() {
    return compressed != null ? compressed.duplicate().position(0) : buffer.duplicate().position(0).limit(position);
  }

  int records() {
    return count;
  }

  int sizeBytes() {
    return compressed != null ? compressed.limit() : position;
  }

  /**
   * Adds the records to counts by window.
   *
   * @param logAppendTimeMs the time that the broker gave all records; {@link ProduceResponse#NO_TIME}: they keep theirs
   */
  void count(WindowCounts counts, long logAppendTimeMs) {
    if (logAppendTimeMs != ProduceResponse.NO_TIME) {
      counts.add(partition.topic(), logAppendTimeMs, count);
    } else if (counts.isOneWindow(minTimestamp, maxTimestamp)) {
      counts.add(partition.topic(), maxTimestamp, count);
    } else {
      long at = address + HEADER_BYTES;
      for (int i = 0; i < count; i++) {
        int body = (int) Varint.get(at);
        at += Varint.size(body);
        counts.add(partition.topic(), baseTimestamp + Varint.get(at + 1), 1);
        at += body;
      }
    }
  }

  /** Appends records [from, to) of a sealed batch to this empty one, with their timestamps. */
  void copyFrom(RecordBatch other, int from, int to) throws IOException {
    long at = other.address + HEADER_BYTES;
    for (int i = 0; i < to; i++) {
      int body = (int) Varint.get(at);
      at += Varint.size(body);
      if (i >= from) {
        copyRecord(at, body, other.baseTimestamp);
      }
      at += body;
    }
  }

  private void copyRecord(long from, int body, long otherBase) throws IOException {
    long at = from + 1;
    long delta = Varint.get(at);
    at += Varint.size(delta);
    at += Varint.size(Varint.get(at)); // the old offset delta
    // Key, value and headers stay as they are, so the rest of the record is copied as one piece.
    int rest = (int) (from + body - at);
    long timestamp = otherBase + delta;
    if (count == 0) {
      baseTimestamp = minTimestamp = maxTimestamp = timestamp;
    }
    minTimestamp = Math.min(minTimestamp, timestamp);
    maxTimestamp = Math.max(maxTimestamp, timestamp);
    long newDelta = timestamp - baseTimestamp;
    int size = 1 + Varint.size(newDelta) + Varint.size(count) + rest;
    if (position + size + 5L > DirectMemory.capacity(buffer)) {
      grow(position + size + 5);
    }
    long to = Varint.put(address + position, size);
    Platform.putByte(null, to++, (byte) 0);
    to = Varint.put(Varint.put(to, newDelta), count);
    Platform.copyMemory(null, at, null, to, rest);
    position = (int) (to + rest - address);
    count++;
  }

  /** Frees its memory; it must not be used afterwards. */
  void release() {
    if (buffer != null) {
      pool.give(buffer);
      buffer = null;
    }
    DirectMemory.free(compressed);
    compressed = null;
  }
}
