package bowstring.spark.values;

import java.nio.charset.StandardCharsets;
import org.apache.spark.unsafe.Platform;

/** Reads JSON tokens from bytes (RFC 8259): strings eight bytes at a time, copied only if they have escapes. */
final class JsonScanner {
  /** The limit of Jackson, and so of from_json. */
  static final int DEPTH_MAX = 1000;

  private static final long ONES = 0x0101010101010101L;
  private static final long HIGHS = 0x8080808080808080L;

  Object base;

  /** Next byte. */
  long at;

  /** One past the last. */
  long end;

  private long begin;

  /** Result of {@link #string}: position and length, or -1 and the bytes in {@link #text}. */
  long stringAt;

  int stringSize;
  byte[] text = new byte[256];

  /** Result of {@link #number}. */
  long numberAt;

  /** Whether it is an integer that fits a long, and that long. */
  boolean isLong;

  long whole;

  /** Whether it is written without a fraction or an exponent. */
  boolean isInteger;

  void over(Object memory, long from, long to) {
    base = memory;
    begin = from;
    at = from;
    end = to;
  }

  BadValueException bad(String message) {
    return ValueDecoder.bad("at byte " + (at - begin) + ": " + message);
  }

  /** Returns the next byte that is not white space, without taking it; 0 at the end. */
  int peek() {
    long p = at;
    while (p < end) {
      int c = Platform.getByte(base, p);
      if (c > ' ' || (c != ' ' && c != '\n' && c != '\r' && c != '\t')) {
        at = p;
        return c;
      }
      p++;
    }
    at = p;
    return 0;
  }

  void take(int wanted) {
    if (peek() != wanted) {
      throw bad("'" + (char) wanted + "' is missing" + (at >= end ? ": the value ends" : ""));
    }
    at++;
  }

  /** Reads a literal whose first byte has been seen. */
  void literal(String word) {
    if (!takes(word)) {
      throw bad("not JSON");
    }
  }

  private boolean takes(String word) {
    int size = word.length();
    if (end - at < size) {
      return false;
    }
    for (int i = 0; i < size; i++) {
      if (Platform.getByte(base, at + i) != word.charAt(i)) {
        return false;
      }
    }
    at += size;
    return true;
  }

  /** Reads a string, including the opening quote. */
  void string() {
    take('"');
    long from = at;
    long p = from;
    while (true) {
      while (p + 8 <= end) {
        long word = Platform.getLong(base, p);
        long quotes = word ^ (ONES * '"');
        long slashes = word ^ (ONES * '\\');
        long stops = ((quotes - ONES) & ~quotes) | ((slashes - ONES) & ~slashes) | ((word - ONES * ' ') & ~word) | word;
        stops &= HIGHS;
        if (stops != 0) {
          p += Long.numberOfTrailingZeros(stops) >>> 3;
          break;
        }
        p += 8;
      }
      if (p >= end) {
        at = end;
        throw bad("a string does not end");
      }
      int c = Platform.getByte(base, p);
      if (c == '"') {
        stringAt = from;
        stringSize = (int) (p - from);
        at = p + 1;
        return;
      }
      if (c == '\\') {
        escaped(from, p);
        return;
      }
      p = c < 0 ? character(p) : plain(c, p);
    }
  }

  private long plain(int c, long p) {
    if (c < ' ') {
      at = p;
      throw bad("a control character in a string");
    }
    return p + 1;
  }

  /** Checks a character of several bytes (RFC 3629); returns the position after it. */
  private long character(long p) {
    int size = Utf8.size(base, p, end);
    if (size == 0) {
      at = p;
      throw bad("not UTF-8");
    }
    return p + size;
  }

  /** Reads the rest of a string from its first escape on; {@link #text} then has the whole string. */
  private void escaped(long from, long first) {
    int size = (int) (first - from);
    room(size + 8);
    Platform.copyMemory(base, from, text, Platform.BYTE_ARRAY_OFFSET, size);
    at = first;
    while (at < end) {
      int c = Platform.getByte(base, at);
      if (c == '"') {
        at++;
        stringAt = -1;
        stringSize = size;
        return;
      }
      room(size + 8);
      if (c == '\\') {
        size = escape(size);
      } else {
        long next = c < 0 ? character(at) : plain(c, at);
        while (at < next) {
          text[size++] = Platform.getByte(base, at++);
        }
      }
    }
    throw bad("a string does not end");
  }

  private void room(int size) {
    if (size > text.length) {
      text = ValueDecoder.doubled(text, size);
    }
  }

  private int escape(int size) {
    if (end - at < 2) {
      throw bad("an escape does not end");
    }
    int c = Platform.getByte(base, at + 1);
    int plain = switch (c) {
      case '"', '\\', '/' -> c;
      case 'b' -> '\b';
      case 'f' -> '\f';
      case 'n' -> '\n';
      case 'r' -> '\r';
      case 't' -> '\t';
      default -> -1;
    };
    if (plain >= 0) {
      at += 2;
      text[size] = (byte) plain;
      return size + 1;
    }
    if (c != 'u') {
      throw bad("this escape is not JSON");
    }
    int point = hex();
    if (point >= 0xd800 && point < 0xdc00) {
      boolean pair = end - at >= 2 && Platform.getByte(base, at) == '\\' && Platform.getByte(base, at + 1) == 'u';
      int low = pair ? hex() : 0;
      if (low < 0xdc00 || low > 0xdfff) {
        throw bad("half a surrogate pair");
      }
      point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    } else if (point >= 0xdc00 && point < 0xe000) {
      throw bad("half a surrogate pair");
    }
    byte[] bytes = Character.toString(point).getBytes(StandardCharsets.UTF_8);
    System.arraycopy(bytes, 0, text, size, bytes.length);
    return size + bytes.length;
  }

  private int hex() {
    if (end - at < 6) {
      throw bad("an escape does not end");
    }
    int value = 0;
    for (int i = 2; i < 6; i++) {
      int digit = Character.digit(Platform.getByte(base, at + i), 16);
      if (digit < 0) {
        throw bad("four hexadecimal digits are needed after \\u");
      }
      value = value << 4 | digit;
    }
    at += 6;
    return value;
  }

  /** The text of the last string. */
  String stringText() {
    byte[] bytes = text;
    if (stringAt >= 0) {
      bytes = new byte[stringSize];
      Platform.copyMemory(base, stringAt, bytes, Platform.BYTE_ARRAY_OFFSET, stringSize);
    }
    return new String(bytes, 0, stringSize, StandardCharsets.UTF_8);
  }

  /** Reads a number; its text is from {@link #numberAt} to {@link #at}. */
  void number() {
    long p = at;
    numberAt = p;
    boolean negative = p < end && Platform.getByte(base, p) == '-';
    if (negative) {
      p++;
    }
    long first = p;
    long value = 0;
    int digit;
    while (p < end && (digit = Platform.getByte(base, p) - '0') >= 0 && digit <= 9) {
      value = value * 10 + digit;
      p++;
    }
    long digits = p - first;
    if (digits == 0 || (digits > 1 && Platform.getByte(base, first) == '0')) {
      throw bad(digits == 0 ? "not JSON" : "a number begins with 0");
    }
    isInteger = true;
    isLong = digits < 19 || (digits == 19 && fits(first, negative));
    whole = negative ? -value : value;
    at = p;
    if (p < end) {
      int c = Platform.getByte(base, p);
      if (c == '.' || c == 'e' || c == 'E') {
        fraction();
      }
    }
  }

  /** Whether 19 digits fit a long. */
  private boolean fits(long first, boolean negative) {
    String most = negative ? "9223372036854775808" : "9223372036854775807";
    for (int i = 0; i < 19; i++) {
      int difference = Platform.getByte(base, first + i) - most.charAt(i);
      if (difference != 0) {
        return difference < 0;
      }
    }
    return true;
  }

  private void fraction() {
    isInteger = false;
    isLong = false;
    if (Platform.getByte(base, at) == '.') {
      at++;
      digits();
    }
    if (at < end && (Platform.getByte(base, at) | 0x20) == 'e') {
      at++;
      if (at < end && (Platform.getByte(base, at) == '-' || Platform.getByte(base, at) == '+')) {
        at++;
      }
      digits();
    }
  }

  private void digits() {
    long from = at;
    while (at < end && Platform.getByte(base, at) >= '0' && Platform.getByte(base, at) <= '9') {
      at++;
    }
    if (at == from) {
      throw bad("a number does not end");
    }
  }

  /** The text of the last number. */
  String numberText() {
    byte[] bytes = new byte[(int) (at - numberAt)];
    Platform.copyMemory(base, numberAt, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    return new String(bytes, StandardCharsets.ISO_8859_1);
  }

  /** Reads NaN, Infinity or -Infinity, which from_json accepts as numbers. */
  double nonFinite() {
    if (takes("NaN")) {
      return Double.NaN;
    }
    if (takes("Infinity")) {
      return Double.POSITIVE_INFINITY;
    }
    return takes("-Infinity") ? Double.NEGATIVE_INFINITY : 0;
  }

  /** Skips any value without interpreting it. */
  void skip(int depth) {
    switch (peek()) {
      case '"' -> string();
      case '{' -> skipAll('}', depth);
      case '[' -> skipAll(']', depth);
      case 't' -> literal("true");
      case 'f' -> literal("false");
      case 'n' -> literal("null");
      default -> {
        if (nonFinite() == 0) {
          number();
        }
      }
    }
  }

  private void skipAll(int close, int depth) {
    if (depth >= DEPTH_MAX) {
      throw bad("nested more than " + DEPTH_MAX + " deep");
    }
    at++;
    if (peek() == close) {
      at++;
      return;
    }
    while (true) {
      if (close == '}') {
        string();
        take(':');
      }
      skip(depth + 1);
      if (peek() != ',') {
        take(close);
        return;
      }
      at++;
      peek();
    }
  }
}
