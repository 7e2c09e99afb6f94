package bowstring.spark.values;

import org.apache.spark.unsafe.Platform;

/** Parses the usual form of timestamps, {@code 2026-01-31T12:00:00.123Z}, without creating objects. */
final class IsoTimestamp {
  /** Any other form. */
  static final long OTHER = Long.MIN_VALUE;

  private static final int WHOLE_SECONDS_BYTES = 19;

  private IsoTimestamp() {}

  /** Microseconds since 1970 of a timestamp in UTC, {@link #OTHER} for any other form. */
  static long utcMicros(Object base, long at, int size) {
    if (size <= WHOLE_SECONDS_BYTES
        || size > WHOLE_SECONDS_BYTES + 8
        || Platform.getByte(base, at + size - 1) != 'Z'
        || Platform.getByte(base, at + 4) != '-'
        || Platform.getByte(base, at + 7) != '-'
        || (Platform.getByte(base, at + 10) != 'T' && Platform.getByte(base, at + 10) != ' ')
        || Platform.getByte(base, at + 13) != ':'
        || Platform.getByte(base, at + 16) != ':') {
      return OTHER;
    }
    int year = digits(base, at, 4);
    int month = digits(base, at + 5, 2);
    int day = digits(base, at + 8, 2);
    int hour = digits(base, at + 11, 2);
    int minute = digits(base, at + 14, 2);
    int second = digits(base, at + 17, 2);
    int fraction = fraction(base, at + WHOLE_SECONDS_BYTES, size - WHOLE_SECONDS_BYTES - 1);
    boolean leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    int last = month == 2 ? (leap ? 29 : 28) : month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
    if ((year | month | day | hour | minute | second | fraction) < 0
        || year < 1583 || month < 1 || month > 12 || day < 1 || day > last
        || hour > 23 || minute > 59 || second > 59) {
      return OTHER;
    }
    long seconds = (epochDay(year, month, day) * 24 + hour) * 3600 + minute * 60L + second;
    return seconds * 1_000_000 + fraction;
  }

  /** Days since 1970 of a date of the Gregorian calendar, in eras of 400 years that begin in March. */
  private static long epochDay(int year, int month, int day) {
    int y = month <= 2 ? year - 1 : year;
    int era = y / 400;
    int yearOfEra = y - era * 400;
    int dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    int dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear;
    return era * 146_097L + dayOfEra - 719_468;
  }

  private static int digits(Object base, long at, int count) {
    int value = 0;
    for (int i = 0; i < count; i++) {
      int digit = Platform.getByte(base, at + i) - '0';
      if (digit < 0 || digit > 9) {
        return -1;
      }
      value = value * 10 + digit;
    }
    return value;
  }

  /** Microseconds of an empty fraction, or of a point and one to six digits. */
  private static int fraction(Object base, long at, int size) {
    if (size == 0) {
      return 0;
    }
    if (size == 1 || Platform.getByte(base, at) != '.') {
      return -1;
    }
    int value = digits(base, at + 1, size - 1);
    for (int i = size; i <= 6 && value > 0; i++) {
      value *= 10;
    }
    return value;
  }
}
