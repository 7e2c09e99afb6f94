package bowstring.spark.values;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.charset.StandardCharsets;
import java.time.ZoneId;
import java.util.Base64;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/**
 * Decodes JSON into columns. Accepts the same input as from_json with its defaults, except single quotes, trailing
 * content, and arrays in place of a value, which are errors here. A field of the wrong type makes the whole value bad.
 */
final class JsonDecoder extends ValueDecoder {
  private static final double[] POWERS = new double[23];

  static {
    double power = 1;
    for (int i = 0; i < POWERS.length; i++, power *= 10) {
      POWERS[i] = power;
    }
  }

  private final JsonScanner json = new JsonScanner();
  private final JsonField plan;
  private final ZoneId zone;

  JsonDecoder(ValueFormat format, StructType shown, boolean checked) {
    super(format);
    plan = JsonField.of(format.schema(), shown, checked, columns);
    root = (StructColumn) plan.column;
    zone = format.zone();
  }

  @Override
  protected void record(int row, long at, long end) {
    json.over(base, at, end);
    int c = json.peek();
    if (c == 'n') {
      json.literal("null");
    } else if (c != '{') {
      throw json.bad(json.at >= end ? "the value is empty" : "an object is needed");
    } else {
      struct(plan, row, 0);
    }
    json.peek();
    if (json.at < end) {
      throw json.bad("text follows the value");
    }
  }

  private void struct(JsonField struct, int row, int depth) {
    ((StructColumn) struct.column).set(row);
    json.take('{');
    if (json.peek() == '}') {
      json.at++;
      return;
    }
    int next = 0;
    while (true) {
      int place = name(struct, next);
      json.take(':');
      if (place >= 0) {
        next = place + 1;
        value(struct.fields[place], row, depth + 1);
      } else {
        json.skip(depth + 1);
      }
      if (json.peek() != ',') {
        json.take('}');
        return;
      }
      json.at++;
    }
  }

  /**
   * Reads a name; returns the index of its field, -1 for one that is not decoded. {@code next} is the most likely one.
   */
  private int name(JsonField struct, int next) {
    JsonField[] fields = struct.fields;
    if (json.peek() != '"') {
      throw json.bad("a name in quotes is needed");
    }
    long from = json.at + 1;
    if (next < fields.length && json.end - from > fields[next].name.length && fields[next].isNamed(base, from)) {
      json.at = from + fields[next].name.length + 1;
      return next;
    }
    json.string();
    if (json.stringAt < 0) {
      JsonField field = struct.named(json.stringText());
      for (int i = 0; i < fields.length; i++) {
        if (fields[i] == field) {
          return i;
        }
      }
      return -1;
    }
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].name.length == json.stringSize && fields[i].isNamed(base, json.stringAt)) {
        return i;
      }
    }
    return -1;
  }

  private void value(JsonField field, int row, int depth) {
    if (field.column.isSet(row)) {
      field.column.clear(row); // For a repeated name the last value counts.
    }
    int c = json.peek();
    if (c == 'n') {
      json.literal("null");
      return;
    }
    switch (field.kind) {
      case STRING -> string(field, row, c, depth);
      case INTEGER -> ((FixedColumn) field.column).set(row, integer(field, c));
      case DOUBLE -> ((FixedColumn) field.column).set(row, Double.doubleToRawLongBits(real(field, c)));
      case FLOAT -> ((FixedColumn) field.column).set(row, Float.floatToRawIntBits(single(field, c)));
      case BOOLEAN -> ((FixedColumn) field.column).set(row, truth(field, c));
      case STRUCT -> nested(field, row, c, depth);
      case LIST -> list(field, row, c, depth);
      case MAP -> map(field, row, c, depth);
      case DECIMAL -> decimal(field, row, c);
      case BINARY -> binary(field, row, c);
      default -> ((FixedColumn) field.column).set(row, time(field, c));
    }
  }

  private BadValueException wrong(JsonField field, String needed) {
    return json.bad(needed + " is needed for " + field.path);
  }

  private void string(JsonField field, int row, int c, int depth) {
    BytesColumn column = (BytesColumn) field.column;
    if (c == '"') {
      json.string();
      if (json.stringAt >= 0) {
        column.set(row, json.stringAt, json.stringSize);
      } else {
        column.copy(row, json.text, json.stringSize);
      }
      return;
    }
    // Any other value becomes its own text, as in from_json.
    long from = json.at;
    json.skip(depth);
    column.set(row, from, (int) (json.at - from));
  }

  private long integer(JsonField field, int c) {
    if (c != '-' && (c < '0' || c > '9')) {
      throw wrong(field, "an integer");
    }
    json.number();
    if (!json.isLong || json.whole < field.least || json.whole > field.most) {
      throw wrong(field, json.isInteger ? "an integer in the range of its type" : "an integer");
    }
    return json.whole;
  }

  private double real(JsonField field, int c) {
    if (c == '"') {
      json.string();
      return switch (json.stringText()) {
        case "NaN" -> Double.NaN;
        case "Infinity", "+Infinity", "INF", "+INF" -> Double.POSITIVE_INFINITY;
        case "-Infinity", "-INF" -> Double.NEGATIVE_INFINITY;
        default -> throw wrong(field, "a number");
      };
    }
    if (c != '-' && (c < '0' || c > '9')) {
      double other = json.nonFinite();
      if (other == 0) {
        throw wrong(field, "a number");
      }
      return other;
    }
    double other = c == '-' ? json.nonFinite() : 0;
    if (other != 0) {
      return other;
    }
    json.number();
    return json.isLong && Math.abs(json.whole) < (1L << 53) && json.whole != 0 ? json.whole : fractional();
  }

  /** A decimal fraction: exact if mantissa and power of ten are (Clinger 1990), otherwise by the library. */
  private double fractional() {
    long mantissa = 0;
    int scale = 0;
    boolean point = false;
    if (json.at - json.numberAt <= 17) {
      for (long p = json.numberAt; p < json.at; p++) {
        int c = Platform.getByte(base, p);
        if (c >= '0' && c <= '9') {
          mantissa = mantissa * 10 + (c - '0');
          scale += point ? 1 : 0;
        } else if (c == '.') {
          point = true;
        } else if (c != '-') {
          return Double.parseDouble(json.numberText());
        }
      }
      if (mantissa < (1L << 53)) {
        double value = mantissa / POWERS[scale];
        return Platform.getByte(base, json.numberAt) == '-' ? -value : value;
      }
    }
    return Double.parseDouble(json.numberText());
  }

  private float single(JsonField field, int c) {
    double value = real(field, c);
    // Rounded once, from the text, where the double may already have been rounded.
    return Double.isFinite(value) && !json.isLong && c != '"' ? Float.parseFloat(json.numberText()) : (float) value;
  }

  private long truth(JsonField field, int c) {
    if (c == 't') {
      json.literal("true");
      return 1;
    }
    if (c != 'f') {
      throw wrong(field, "true or false");
    }
    json.literal("false");
    return 0;
  }

  private void nested(JsonField field, int row, int c, int depth) {
    if (c != '{') {
      throw wrong(field, "an object");
    }
    if (depth >= JsonScanner.DEPTH_MAX) {
      throw json.bad("nested more than " + JsonScanner.DEPTH_MAX + " deep");
    }
    struct(field, row, depth);
  }

  private void list(JsonField field, int row, int c, int depth) {
    if (c != '[') {
      throw wrong(field, "an array");
    }
    ListColumn column = (ListColumn) field.column;
    column.begin(row);
    json.at++;
    if (json.peek() == ']') {
      json.at++;
      return;
    }
    while (true) {
      value(field.fields[0], column.add(row), depth + 1);
      if (json.peek() != ',') {
        json.take(']');
        return;
      }
      json.at++;
    }
  }

  private void map(JsonField field, int row, int c, int depth) {
    if (c != '{') {
      throw wrong(field, "an object");
    }
    ListColumn column = (ListColumn) field.column;
    column.begin(row);
    json.at++;
    if (json.peek() == '}') {
      json.at++;
      return;
    }
    while (true) {
      int entry = column.add(row);
      BytesColumn keys = (BytesColumn) column.keys;
      json.string();
      if (json.stringAt >= 0) {
        keys.set(entry, json.stringAt, json.stringSize);
      } else {
        keys.copy(entry, json.text, json.stringSize);
      }
      json.take(':');
      value(field.fields[0], entry, depth + 1);
      if (json.peek() != ',') {
        json.take('}');
        return;
      }
      json.at++;
    }
  }

  private void decimal(JsonField field, int row, int c) {
    DecimalType type = (DecimalType) field.column.dataType();
    BigDecimal value;
    if (c == '"') {
      json.string();
      value = parsed(field, json.stringText().strip());
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      json.number();
      value = parsed(field, json.numberText());
    } else {
      throw wrong(field, "a number");
    }
    if (!setDecimal(field.column, row, value.setScale(type.scale(), RoundingMode.HALF_UP))) {
      throw wrong(field, "a number with at most " + type.precision() + " digits");
    }
  }

  private BigDecimal parsed(JsonField field, String text) {
    try {
      BigDecimal value = new BigDecimal(text);
      if (value.scale() < -1000 || value.scale() > 100_000) {
        throw wrong(field, "a number with fewer digits");
      }
      return value;
    } catch (NumberFormatException e) {
      throw wrong(field, "a number");
    }
  }

  /** Sets a decimal with its column's scale; false if it has too many digits. */
  static boolean setDecimal(ValueColumn column, int row, BigDecimal value) {
    DecimalType type = (DecimalType) column.dataType();
    if (value.precision() > type.precision()) {
      return false;
    }
    if (column instanceof FixedColumn fixed) {
      fixed.set(row, value.unscaledValue().longValueExact());
    } else {
      ((DecimalColumn) column).set(row, value);
    }
    return true;
  }

  private void binary(JsonField field, int row, int c) {
    if (c != '"') {
      throw wrong(field, "a string of base64");
    }
    json.string();
    try {
      byte[] bytes = Base64.getDecoder().decode(json.stringText().getBytes(StandardCharsets.ISO_8859_1));
      ((BytesColumn) field.column).copy(row, bytes, bytes.length);
    } catch (IllegalArgumentException e) {
      throw wrong(field, "a string of base64");
    }
  }

  private long time(JsonField field, int c) {
    if (c != '"') {
      if (field.kind == JsonField.Kind.TIMESTAMP && (c == '-' || (c >= '0' && c <= '9'))) {
        long seconds = integer(field, c);
        if (Math.abs(seconds) <= Long.MAX_VALUE / 1_000_000) {
          return seconds * 1_000_000;
        }
      }
      throw wrong(field, field.kind == JsonField.Kind.DATE ? "a date in quotes" : "a timestamp");
    }
    json.string();
    if (field.kind == JsonField.Kind.TIMESTAMP && json.stringAt >= 0) {
      long micros = IsoTimestamp.utcMicros(base, json.stringAt, json.stringSize);
      if (micros != IsoTimestamp.OTHER) {
        return micros;
      }
    }
    UTF8String text = UTF8String.fromString(json.stringText());
    Option<Object> parsed = switch (field.kind) {
      case DATE -> DateTimeUtils.stringToDate(text);
      case TIMESTAMP -> DateTimeUtils.stringToTimestamp(text, zone);
      default -> DateTimeUtils.stringToTimestampWithoutTimeZone(text, true);
    };
    if (parsed.isEmpty()) {
      throw wrong(field, field.kind == JsonField.Kind.DATE ? "a date" : "a timestamp");
    }
    return ((Number) parsed.get()).longValue();
  }
}
