package bowstring.spark.decode;

import bowstring.spark.wire.WireException;
import org.apache.spark.unsafe.Platform;

/** Fields of a record batch's header, magic 2 (KIP-98), read in place from an address. */
final class BatchHeader {
  /** Bytes from the start of a batch to its first record. */
  static final int SIZE = 61;

  /** Bytes before those that the length field counts. */
  static final int LENGTH_OVERHEAD = 12;

  static final int CRC_OFFSET = 17;

  /** The checksum covers everything from here on. */
  static final int ATTRIBUTES_OFFSET = 21;

  /** A record has at least a length, attributes, two deltas, two lengths and a header count. */
  static final int SMALLEST_RECORD_BYTES = 7;

  private static final int COMPRESSION_MASK = 0x07;
  private static final int LOG_APPEND_TIME = 0x08;
  private static final int TRANSACTIONAL = 0x10;
  private static final int CONTROL = 0x20;

  private BatchHeader() {}

  static int int32(long address) {
    return Integer.reverseBytes(Platform.getInt(null, address));
  }

  static long int64(long address) {
    return Long.reverseBytes(Platform.getLong(null, address));
  }

  static long baseOffset(long batch) {
    return int64(batch);
  }

  /** The whole batch's bytes, by its length field; unchecked until {@link #check} has passed. */
  static long size(long batch) {
    return LENGTH_OVERHEAD + (long) int32(batch + 8);
  }

  static int magic(long batch) {
    return Platform.getByte(null, batch + 16);
  }

  static int crc(long batch) {
    return int32(batch + CRC_OFFSET);
  }

  static int attributes(long batch) {
    return Platform.getByte(null, batch + ATTRIBUTES_OFFSET + 1); // all defined bits are in the low byte
  }

  static int lastOffsetDelta(long batch) {
    return int32(batch + 23);
  }

  static long baseTimestampMs(long batch) {
    return int64(batch + 27);
  }

  static long maxTimestampMs(long batch) {
    return int64(batch + 35);
  }

  static long producerId(long batch) {
    return int64(batch + 43);
  }

  static int count(long batch) {
    return int32(batch + 57);
  }

  static int compression(int attributes) {
    return attributes & COMPRESSION_MASK;
  }

  /** Kafka's timestamp type: 0 the record's own time, 1 the broker's. */
  static int timestampType(int attributes) {
    return (attributes & LOG_APPEND_TIME) == 0 ? 0 : 1;
  }

  static boolean isTransactional(int attributes) {
    return (attributes & TRANSACTIONAL) != 0;
  }

  static boolean isControl(int attributes) {
    return (attributes & CONTROL) != 0;
  }

  /** Whether the batch at {@code batch} is complete in {@code available} bytes. */
  static boolean isWhole(long batch, long available) throws WireException.CorruptRecords {
    if (available < SIZE) {
      return false;
    }
    long size = size(batch);
    int magic = magic(batch);
    if (magic != 2) {
      throw new WireException.CorruptRecords("The records at offset " + baseOffset(batch) + " have format version "
          + magic + ", but this source reads version 2 (Kafka 0.11 and newer): write the topic again with a newer client");
    }
    if (size < SIZE) {
      throw new WireException.CorruptRecords(
          "The record batch at offset " + baseOffset(batch) + " claims a size of " + size + " bytes");
    }
    return size <= available;
  }

  /** Refuses a header whose numbers contradict each other. */
  static void check(long batch) throws WireException.CorruptRecords {
    int lastOffsetDelta = lastOffsetDelta(batch);
    int count = count(batch);
    long baseOffset = baseOffset(batch);
    if (baseOffset < 0 || lastOffsetDelta < 0 || count < 0 || count - 1 > lastOffsetDelta
        || baseOffset > Long.MAX_VALUE - lastOffsetDelta - 1) {
      throw new WireException.CorruptRecords("The record batch at offset " + baseOffset + " claims " + count
          + " records and a last offset delta of " + lastOffsetDelta);
    }
  }
}
