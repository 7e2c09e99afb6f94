package bowstring.spark.values;

import org.apache.spark.unsafe.Platform;

/** UTF-8 (RFC 3629), checked eight bytes at a time while it is ASCII. */
final class Utf8 {
  private static final long HIGHS = 0x8080808080808080L;

  private Utf8() {}

  /** Whether the bytes from {@code at} to {@code end} are well formed. */
  static boolean isValid(Object base, long at, long end) {
    long p = at;
    while (p < end) {
      if (end - p >= 8 && (Platform.getLong(base, p) & HIGHS) == 0) {
        p += 8;
      } else if (Platform.getByte(base, p) >= 0) {
        p++;
      } else {
        int size = size(base, p, end);
        if (size == 0) {
          return false;
        }
        p += size;
      }
    }
    return true;
  }

  /** Bytes of the non-ASCII character at {@code p}; 0 if it is malformed. */
  static int size(Object base, long p, long end) {
    int lead = Platform.getByte(base, p) & 0xff;
    int size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || end - p < size) {
      return 0;
    }
    int second = Platform.getByte(base, p + 1) & 0xff;
    int least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    int most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (second < least || second > most) {
      return 0;
    }
    for (int i = 2; i < size; i++) {
      if ((Platform.getByte(base, p + i) & 0xc0) != 0x80) {
        return 0;
      }
    }
    return size;
  }
}
