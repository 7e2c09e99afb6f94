package bowstring.spark.decode;

import bowstring.spark.wire.WireException;

/** The header of the present batch; one object, filled again for each batch. */
final class BatchFrame {
  long baseOffset;
  long nextOffset;
  int lastOffsetDelta;
  int count;
  int attributes;
  int timestampType;
  long baseTimestampMs;
  long maxTimestampMs;
  long producerId;
  int size;

  /** Reads the header of a batch that is completely in memory. */
  void read(long batch) throws WireException.CorruptRecords {
    BatchHeader.check(batch);
    baseOffset = BatchHeader.baseOffset(batch);
    lastOffsetDelta = BatchHeader.lastOffsetDelta(batch);
    nextOffset = baseOffset + lastOffsetDelta + 1;
    count = BatchHeader.count(batch);
    attributes = BatchHeader.attributes(batch);
    timestampType = BatchHeader.timestampType(attributes);
    baseTimestampMs = BatchHeader.baseTimestampMs(batch);
    maxTimestampMs = BatchHeader.maxTimestampMs(batch);
    producerId = BatchHeader.producerId(batch);
    size = (int) BatchHeader.size(batch);
  }
}
