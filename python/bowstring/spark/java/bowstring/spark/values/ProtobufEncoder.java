package bowstring.spark.values;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Encodes structs as messages of Protobuf; fields that are null are left out. */
final class ProtobufEncoder extends ValueEncoder {
  private static final long MICROS = 1_000_000;
  private static final BigInteger UNSIGNED_MAX = BigInteger.ONE.shiftLeft(64).subtract(BigInteger.ONE);
  private static final int VARINT = 0;
  private static final int EIGHT = 1;
  private static final int SIZED = 2;
  private static final int GROUP = 3;
  private static final int GROUP_END = 4;
  private static final int FOUR = 5;

  /** A field: how its value is written, and whether it is the default, which is left out where that says the same. */
  private record Kind(int wire, Part value, Zero isZero) {}

  /** Whether a value is its type's zero. */
  @FunctionalInterface
  private interface Zero {
    boolean of(SpecializedGetters in, int at);
  }

  private final ProtobufTypes types;
  private final Part message;

  /**
   * An encoder of a message.
   *
   * @throws IllegalArgumentException if a column has another type than the message's field needs
   */
  ProtobufEncoder(ProtobufTypes types, String name, StructType type) {
    this.types = types;
    message = message(types.message(name), new FieldSource(type, ""));
  }

  @Override
  protected void root(InternalRow struct) {
    message.put(struct, 0);
  }

  /** Writes the fields of the struct that is given itself. */
  private Part message(ProtobufTypes.Message of, FieldSource source) {
    Part[] parts = new Part[of.fields().size()];
    int[] places = new int[parts.length];
    for (int i = 0; i < parts.length; i++) {
      ProtobufTypes.Field field = of.fields().get(i);
      places[i] = source.place(field.name);
      parts[i] = places[i] < 0 ? null : field(of, field, source.field(places[i], field.name));
    }
    return (in, at) -> {
      for (int i = 0; i < parts.length; i++) {
        if (parts[i] != null && !in.isNullAt(places[i])) {
          parts[i].put(in, places[i]);
        }
      }
    };
  }

  private Part field(ProtobufTypes.Message of, ProtobufTypes.Field field, FieldSource source) {
    ProtobufTypes.Message inner = types.messages.get(field.typeName);
    if (inner != null && inner.isEntry()) {
      return map(field, inner, source);
    }
    if (field.repeated) {
      return repeated(field, source.element());
    }
    Kind kind = kind(field, source);
    Part tagged = tagged(field, kind);
    if (!field.implicit(of.proto2())) {
      return tagged;
    }
    return (in, at) -> {
      if (!kind.isZero.of(in, at)) {
        tagged.put(in, at);
      }
    };
  }

  private Part tagged(ProtobufTypes.Field field, Kind kind) {
    long tag = (long) field.number << 3 | kind.wire;
    if (kind.wire != GROUP) {
      return (in, at) -> {
        varint(tag);
        kind.value.put(in, at);
      };
    }
    return (in, at) -> {
      varint(tag);
      kind.value.put(in, at);
      varint(tag - GROUP + GROUP_END);
    };
  }

  private Part repeated(ProtobufTypes.Field field, FieldSource source) {
    Kind kind = kind(field, source);
    Part tagged = tagged(field, kind);
    return (in, at) -> {
      ArrayData items = in.getArray(at);
      int count = items.numElements();
      int begin = 0;
      if (field.packed && count > 0) {
        varint((long) field.number << 3 | SIZED);
        begin = beginSized();
      }
      for (int i = 0; i < count; i++) {
        if (items.isNullAt(i)) {
          throw bad(source.path(), "null in a repeated field, which Protobuf does not allow");
        }
        (field.packed ? kind.value : tagged).put(items, i);
      }
      if (field.packed && count > 0) {
        endSized(begin);
      }
    };
  }

  private Part map(ProtobufTypes.Field field, ProtobufTypes.Message entry, FieldSource source) {
    FieldSource keySource = source.mapKey();
    Part key = tagged(entry.field(1), kind(entry.field(1), keySource));
    Part value = tagged(entry.field(2), kind(entry.field(2), source.mapValue()));
    return (in, at) -> {
      MapData map = in.getMap(at);
      ArrayData values = map.valueArray();
      for (int i = 0; i < map.numElements(); i++) {
        varint((long) field.number << 3 | SIZED);
        int begin = beginSized();
        key.put(map.keyArray(), i);
        if (values.isNullAt(i)) {
          throw bad(source.path(), "null in a map, which Protobuf does not allow");
        }
        value.put(values, i);
        endSized(begin);
      }
    };
  }

  /** One value of a field's type. */
  private Kind kind(ProtobufTypes.Field field, FieldSource source) {
    return switch (field.type) {
      case 1 -> {
        FieldSource.Real number = source.real("a double");
        yield new Kind(EIGHT, (in, at) -> eight(Double.doubleToRawLongBits(number.of(in, at))),
            (in, at) -> Double.doubleToRawLongBits(number.of(in, at)) == 0);
      }
      case 2 -> {
        FieldSource.Real number = source.real("a float");
        yield new Kind(FOUR, (in, at) -> four(Float.floatToRawIntBits((float) number.of(in, at))),
            (in, at) -> Float.floatToRawIntBits((float) number.of(in, at)) == 0);
      }
      case 3 -> numbers(VARINT, source.whole(Long.MIN_VALUE, Long.MAX_VALUE, "an int64"));
      case 5 -> numbers(VARINT, source.whole(Integer.MIN_VALUE, Integer.MAX_VALUE, "an int32"));
      case 13 -> numbers(VARINT, source.whole(0, 0xffffffffL, "a uint32"));
      case 4 -> numbers(VARINT, unsigned(source));
      case 6 -> numbers(EIGHT, unsigned(source));
      case 16 -> numbers(EIGHT, source.whole(Long.MIN_VALUE, Long.MAX_VALUE, "an sfixed64"));
      case 7 -> numbers(FOUR, source.whole(0, 0xffffffffL, "a fixed32"));
      case 15 -> numbers(FOUR, source.whole(Integer.MIN_VALUE, Integer.MAX_VALUE, "an sfixed32"));
      case 17 -> zigzags(source.whole(Integer.MIN_VALUE, Integer.MAX_VALUE, "an sint32"));
      case 18 -> zigzags(source.whole(Long.MIN_VALUE, Long.MAX_VALUE, "an sint64"));
      case 8 -> {
        source.bool();
        yield new Kind(VARINT, (in, at) -> one(in.getBoolean(at) ? 1 : 0), (in, at) -> !in.getBoolean(at));
      }
      case 9, 12 -> raw(field, source);
      case 14 -> named(field, source);
      default -> nested(field, source);
    };
  }

  private Kind numbers(int wire, FieldSource.Whole number) {
    Part value = switch (wire) {
      case VARINT -> (in, at) -> varint(number.of(in, at));
      case FOUR -> (in, at) -> four((int) number.of(in, at));
      default -> (in, at) -> eight(number.of(in, at));
    };
    return new Kind(wire, value, (in, at) -> number.of(in, at) == 0);
  }

  private Kind zigzags(FieldSource.Whole number) {
    return new Kind(VARINT, (in, at) -> zigzag(number.of(in, at)), (in, at) -> number.of(in, at) == 0);
  }

  private static FieldSource.Whole unsigned(FieldSource source) {
    var number = source.decimal(20, 0);
    return (in, at) -> {
      BigDecimal value = number.apply(in, at);
      BigInteger whole = value.unscaledValue();
      if (whole.signum() < 0 || whole.compareTo(UNSIGNED_MAX) > 0) {
        throw bad(source.path(), value + " is out of the range of a uint64");
      }
      return whole.longValue();
    };
  }

  private Kind raw(ProtobufTypes.Field field, FieldSource source) {
    if (field.type == 9) {
      source.string();
      return new Kind(SIZED, (in, at) -> sized(in.getUTF8String(at)),
          (in, at) -> in.getUTF8String(at).numBytes() == 0);
    }
    boolean isString = source.binary();
    return new Kind(SIZED, (in, at) -> {
      byte[] bytes = FieldSource.raw(in, at, isString);
      varint(bytes.length);
      bytes(bytes);
    }, (in, at) -> FieldSource.raw(in, at, isString).length == 0);
  }

  private void sized(UTF8String text) {
    varint(text.numBytes());
    text(text);
  }

  /** An enum: by its name, or a number in digits. */
  private Kind named(ProtobufTypes.Field field, FieldSource source) {
    source.string();
    Map<UTF8String, Integer> numbers = new HashMap<>();
    UTF8String[] first = new UTF8String[1];
    types.enums.get(field.typeName).byNumber().forEach((number, name) -> {
      UTF8String text = UTF8String.fromString(new String(name, StandardCharsets.UTF_8));
      numbers.putIfAbsent(text, number);
      first[0] = first[0] == null ? text : first[0];
    });
    return new Kind(VARINT, (in, at) -> {
      UTF8String text = in.getUTF8String(at);
      Integer number = numbers.get(text);
      varint(number != null ? number : digits(text.toString(), source.path()));
    }, (in, at) -> in.getUTF8String(at).equals(first[0]));
  }

  private static int digits(String text, String path) {
    try {
      if (text.matches("-?[0-9]{1,10}")) {
        return Integer.parseInt(text);
      }
    } catch (NumberFormatException tooLarge) {
      // the message below
    }
    throw bad(path, "the text is not a name of the enum");
  }

  private Kind nested(ProtobufTypes.Field field, FieldSource source) {
    ProtobufTypes.Message inner = types.messages.get(field.typeName);
    if (inner == null) {
      throw new IllegalArgumentException("the schema of the values lacks " + field.typeName);
    }
    if (inner.name().equals(ProtobufTypes.TIMESTAMP)) {
      return moments(source.moment(), false);
    }
    if (inner.name().equals(ProtobufTypes.DURATION) && source.isInterval()) {
      return moments(SpecializedGetters::getLong, true);
    }
    if (ProtobufTypes.isWrapper(inner.name())) {
      Kind wrapped = kind(inner.field(1), source);
      Part tagged = tagged(inner.field(1), wrapped);
      return new Kind(SIZED, (in, at) -> {
        int begin = beginSized();
        if (!wrapped.isZero.of(in, at)) {
          tagged.put(in, at);
        }
        endSized(begin);
      }, (in, at) -> false);
    }
    Part fields = message(inner, source);
    int size = source.fields();
    if (field.type == 10) {
      return new Kind(GROUP, (in, at) -> fields.put(in.getStruct(at, size), 0), (in, at) -> false);
    }
    return new Kind(SIZED, (in, at) -> {
      int begin = beginSized();
      fields.put(in.getStruct(at, size), 0);
      endSized(begin);
    }, (in, at) -> false);
  }

  /** Microseconds as google.protobuf.Timestamp or Duration; both parts of a Duration have the same sign. */
  private Kind moments(FieldSource.Whole micros, boolean signed) {
    return new Kind(SIZED, (in, at) -> {
      long value = micros.of(in, at);
      long seconds = signed ? value / MICROS : Math.floorDiv(value, MICROS);
      long rest = value - seconds * MICROS;
      int begin = beginSized();
      if (seconds != 0) {
        one(8);
        varint(seconds);
      }
      if (rest != 0) {
        one(16);
        varint(rest * 1000);
      }
      endSized(begin);
    }, (in, at) -> false);
  }
}
