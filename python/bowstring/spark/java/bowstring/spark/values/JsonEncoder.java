package bowstring.spark.values;

import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.util.Base64;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;

/** Encodes structs as JSON objects (RFC 8259); fields that are null, or missing, are written as null. */
final class JsonEncoder extends ValueEncoder {
  private static final byte[] NULL = ascii("null");
  private static final byte[] TRUE = ascii("true");
  private static final byte[] FALSE = ascii("false");
  private static final char[] HEX = "0123456789abcdef".toCharArray();
  private static final long MICROS = 1_000_000;
  private static final int YEAR_MAX = 9999;

  private final Part value;

  /**
   * An encoder of objects.
   *
   * @param schema of the values, from {@link JsonTypes}
   * @throws IllegalArgumentException if a column has another type than the schema needs
   */
  JsonEncoder(StructType schema, StructType type) {
    FieldSource source = new FieldSource(type, "");
    int[] places = new int[schema.length()];
    Part[] fields = fields(schema, source, places);
    byte[][] names = names(schema);
    value = (in, at) -> object((InternalRow) in, fields, places, names);
  }

  @Override
  protected void root(InternalRow struct) {
    value.put(struct, 0);
  }

  private static byte[] ascii(String text) {
    return text.getBytes(StandardCharsets.US_ASCII);
  }

  private byte[][] names(StructType schema) {
    byte[][] names = new byte[schema.length()][];
    for (int i = 0; i < names.length; i++) {
      JsonText text = new JsonText();
      text.string(schema.fieldNames()[i].getBytes(StandardCharsets.UTF_8));
      text.one(':');
      names[i] = java.util.Arrays.copyOf(text.bytes(), text.size());
    }
    return names;
  }

  /** Collects the text of a name. */
  private static final class JsonText extends ValueEncoder {
    @Override
    protected void root(InternalRow struct) {}

    void string(byte[] text) {
      quoted(this, text);
    }
  }

  private Part[] fields(StructType schema, FieldSource source, int[] places) {
    Part[] parts = new Part[places.length];
    for (int i = 0; i < parts.length; i++) {
      String name = schema.fieldNames()[i];
      places[i] = source.place(name);
      parts[i] = places[i] < 0 ? null : part(schema.fields()[i].dataType(), source.field(places[i], name));
    }
    return parts;
  }

  private void object(InternalRow struct, Part[] fields, int[] places, byte[][] names) {
    one('{');
    for (int i = 0; i < fields.length; i++) {
      if (i > 0) {
        one(',');
      }
      bytes(names[i]);
      if (fields[i] == null) {
        bytes(NULL);
      } else {
        fields[i].put(struct, places[i]);
      }
    }
    one('}');
  }

  private Part part(DataType wanted, FieldSource source) {
    Part inner = notNull(wanted, source);
    return (in, at) -> {
      if (in.isNullAt(at)) {
        bytes(NULL);
      } else {
        inner.put(in, at);
      }
    };
  }

  private Part notNull(DataType wanted, FieldSource source) {
    if (wanted instanceof StructType struct) {
      int[] places = new int[struct.length()];
      Part[] fields = fields(struct, source, places);
      byte[][] names = names(struct);
      int size = source.fields();
      return (in, at) -> object(in.getStruct(at, size), fields, places, names);
    }
    if (wanted instanceof ArrayType array) {
      return items(part(array.elementType(), source.element()));
    }
    if (wanted instanceof MapType map) {
      source.mapKey().string();
      return entries(part(map.valueType(), source.mapValue()));
    }
    return leaf(wanted, source);
  }

  private Part leaf(DataType wanted, FieldSource source) {
    if (wanted instanceof StringType) {
      source.string();
      return (in, at) -> quoted(this, in.getUTF8String(at).getBytes());
    }
    if (wanted instanceof LongType) {
      FieldSource.Whole number = source.whole(Long.MIN_VALUE, Long.MAX_VALUE, "a long");
      return (in, at) -> bytes(ascii(Long.toString(number.of(in, at))));
    }
    if (wanted instanceof DoubleType) {
      FieldSource.Real number = source.real("a double");
      return (in, at) -> bytes(ascii(shortest(number.of(in, at))));
    }
    if (wanted instanceof BooleanType) {
      source.bool();
      return (in, at) -> bytes(in.getBoolean(at) ? TRUE : FALSE);
    }
    if (wanted instanceof BinaryType) {
      boolean isString = source.binary();
      return (in, at) -> {
        one('"');
        bytes(Base64.getEncoder().encode(FieldSource.raw(in, at, isString)));
        one('"');
      };
    }
    if (wanted instanceof DateType) {
      source.date();
      return (in, at) -> bytes(ascii(date(in.getInt(at), "\"", Integer.toString(in.getInt(at)))));
    }
    if (wanted instanceof TimestampType) {
      FieldSource.Whole moment = source.moment();
      return (in, at) -> bytes(ascii(timestamp(moment.of(in, at))));
    }
    throw source.unfit(wanted.simpleString());
  }

  private Part items(Part element) {
    return (in, at) -> {
      ArrayData items = in.getArray(at);
      one('[');
      for (int i = 0; i < items.numElements(); i++) {
        if (i > 0) {
          one(',');
        }
        element.put(items, i);
      }
      one(']');
    };
  }

  private Part entries(Part value) {
    return (in, at) -> {
      MapData map = in.getMap(at);
      ArrayData keys = map.keyArray();
      ArrayData values = map.valueArray();
      one('{');
      for (int i = 0; i < map.numElements(); i++) {
        if (i > 0) {
          one(',');
        }
        quoted(this, keys.getUTF8String(i).getBytes());
        one(':');
        value.put(values, i);
      }
      one('}');
    };
  }

  private static void quoted(ValueEncoder to, byte[] text) {
    to.one('"');
    for (byte c : text) {
      if (c == '"' || c == '\\') {
        to.one('\\');
        to.one(c);
      } else if (c < 0 || c >= 32) {
        to.one(c);
      } else {
        to.one('\\');
        switch (c) {
          case '\n' -> to.one('n');
          case '\r' -> to.one('r');
          case '\t' -> to.one('t');
          default -> to.bytes(ascii("u00" + HEX[c >> 4] + HEX[c & 15]));
        }
      }
    }
    to.one('"');
  }

  /** The fewest digits that read back as the same number, in the form of C's %g; at most six behind the point first. */
  static String shortest(double value) {
    if (Double.isNaN(value) || Double.isInfinite(value)) {
      return Double.isNaN(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    }
    double power = 1;
    for (int digits = 0; digits < 7; digits++) {
      double scaled = Math.abs(value) * power;
      if (scaled >= 9007199254740992.0) {
        break;
      }
      long mantissa = (long) (scaled + 0.5);
      if (mantissa / power == Math.abs(value) && (mantissa != 0 || value == 0)) {
        String text = BigDecimal.valueOf(mantissa, digits).toPlainString() + (digits == 0 ? ".0" : "");
        return (1 / value < 0 || value < 0 ? "-" : "") + text;
      }
      power *= 10;
    }
    String text = "";
    for (int digits = 15; digits < 18; digits++) {
      text = general(value, digits);
      if (Double.parseDouble(text) == value) {
        break;
      }
    }
    return text;
  }

  /** C's %.*g. */
  private static String general(double value, int digits) {
    BigDecimal rounded = new BigDecimal(value).round(new MathContext(digits, RoundingMode.HALF_EVEN));
    int exponent = rounded.precision() - rounded.scale() - 1;
    BigDecimal bare = rounded.stripTrailingZeros();
    if (exponent >= -4 && exponent < digits) {
      return bare.toPlainString();
    }
    String figures = bare.unscaledValue().abs().toString();
    String power = String.format(java.util.Locale.ROOT, "e%s%02d", exponent < 0 ? "-" : "+", Math.abs(exponent));
    return (value < 0 ? "-" : "") + figures.charAt(0) + (figures.length() > 1 ? "." + figures.substring(1) : "") + power;
  }

  /** A date between marks, or another text for years that do not have four digits. */
  private static String date(long days, String mark, String otherwise) {
    try {
      LocalDate date = LocalDate.ofEpochDay(days);
      return date.getYear() < 0 || date.getYear() > YEAR_MAX ? otherwise : mark + date + mark;
    } catch (DateTimeException beyond) {
      return otherwise;
    }
  }

  private static String timestamp(long micros) {
    long seconds = Math.floorDiv(micros, MICROS);
    int rest = (int) Math.floorMod(micros, MICROS);
    String date = date(Math.floorDiv(seconds, 86_400L), "", "");
    if (date.isEmpty()) {
      return Long.toString(micros);
    }
    int second = (int) Math.floorMod(seconds, 86_400L);
    String fraction = rest == 0 ? "" : rest % 1000 == 0 ? String.format(java.util.Locale.ROOT, ".%03d", rest / 1000)
        : String.format(java.util.Locale.ROOT, ".%06d", rest);
    return String.format(java.util.Locale.ROOT, "\"%sT%02d:%02d:%02d%sZ\"", date, second / 3600, second / 60 % 60,
        second % 60, fraction);
  }
}
