package bowstring.spark.decode;

import bowstring.spark.wire.WireException;
import java.util.Arrays;

/** The headers of a columnar batch's records: all headers in a row, and for each record the index of its first. */
final class HeaderColumns {
  int[] first = new int[0];
  int[] count = new int[0];
  int[] keyAt = new int[64];
  int[] keyLength = new int[64];
  int[] valueAt = new int[64];
  int[] valueLength = new int[64];
  int nullRecords;
  private int headers;

  void clear() {
    headers = 0;
    nullRecords = 0;
  }

  void growRecords(int size) {
    first = Arrays.copyOf(first, size);
    count = Arrays.copyOf(count, size);
  }

  void add(long at, long recordEnd, long base, int row, BatchFrame batch) throws WireException.CorruptRecords {
    long read = Varints.read(at);
    long position = at + Varints.length(read);
    int n = Varints.value(read);
    if (n < 0 || n > (recordEnd - position) / 2) {
      throw RecordColumns.corrupt(batch, "a record with " + n + " headers");
    }
    reserve(n);
    first[row] = headers;
    count[row] = n;
    nullRecords += n == 0 ? 1 : 0;
    for (int i = headers; i < headers + n; i++) {
      read = Varints.read(position);
      position += Varints.length(read);
      keyLength[i] = Varints.value(read);
      keyAt[i] = (int) (position - base);
      if (keyLength[i] < 0 || keyLength[i] > recordEnd - position) {
        throw RecordColumns.corrupt(batch, "a header key of " + keyLength[i] + " bytes");
      }
      position += keyLength[i];
      read = Varints.read(position);
      position += Varints.length(read);
      valueLength[i] = Varints.value(read);
      valueAt[i] = (int) (position - base);
      if (valueLength[i] > recordEnd - position) {
        throw RecordColumns.corrupt(batch, "a header value of " + valueLength[i] + " bytes");
      }
      position += Math.max(0, valueLength[i]);
    }
    if (position != recordEnd) {
      throw RecordColumns.corrupt(batch, "a record whose fields do not fill it");
    }
    headers += n;
  }

  private void reserve(int more) {
    int needed = Math.addExact(headers, more);
    if (needed > keyAt.length) {
      int size = Math.max(needed, keyAt.length * 2);
      keyAt = Arrays.copyOf(keyAt, size);
      keyLength = Arrays.copyOf(keyLength, size);
      valueAt = Arrays.copyOf(valueAt, size);
      valueLength = Arrays.copyOf(valueLength, size);
    }
  }
}
