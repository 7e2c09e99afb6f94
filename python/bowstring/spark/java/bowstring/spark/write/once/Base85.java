package bowstring.spark.write.once;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Base85 with the alphabet of RFC 1924, as Python's base64.b85encode writes it: 4 bytes in 5 characters. */
final class Base85 {
  private static final String ALPHABET =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

  private Base85() {}

  static String encode(byte[] bytes) {
    byte[] padded = Arrays.copyOf(bytes, (bytes.length + 3) / 4 * 4);
    byte[] text = new byte[padded.length / 4 * 5];
    for (int from = 0, to = 0; from < padded.length; from += 4, to += 5) {
      long word = 0;
      for (int i = 0; i < 4; i++) {
        word = word << 8 | padded[from + i] & 0xff;
      }
      for (int i = 4; i >= 0; i--) {
        text[to + i] = (byte) ALPHABET.charAt((int) (word % 85));
        word /= 85;
      }
    }
    return new String(text, 0, text.length - (padded.length - bytes.length), StandardCharsets.US_ASCII);
  }

  /**
   * Returns the bytes of a text.
   *
   * @throws IllegalArgumentException if it is not Base85
   */
  static byte[] decode(String text) {
    int padding = (5 - text.length() % 5) % 5;
    String padded = text + "~".repeat(padding);
    byte[] bytes = new byte[padded.length() / 5 * 4];
    for (int from = 0, to = 0; from < padded.length(); from += 5, to += 4) {
      long word = 0;
      for (int i = 0; i < 5; i++) {
        int digit = ALPHABET.indexOf(padded.charAt(from + i));
        if (digit < 0) {
          throw new IllegalArgumentException("not Base85: " + text);
        }
        word = word * 85 + digit;
      }
      if (word >>> 32 != 0) {
        throw new IllegalArgumentException("not Base85: " + text);
      }
      for (int i = 3; i >= 0; i--) {
        bytes[to + i] = (byte) word;
        word >>>= 8;
      }
    }
    return Arrays.copyOf(bytes, Math.max(0, bytes.length - padding));
  }
}
