package bowstring.spark.values;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Encodes structs in Avro's binary encoding (specification 1.12). */
final class AvroEncoder extends ValueEncoder {
  private static final String NULL = "null, which the schema does not allow";

  private final Part[] fields;
  private final int[] places;

  /**
   * An encoder of a record.
   *
   * @throws IllegalArgumentException if a column has another type than the schema needs
   */
  AvroEncoder(Schema schema, StructType type) {
    if (schema.getType() != Schema.Type.RECORD) {
      throw new IllegalArgumentException("the schema of the values is no record: write a column of bytes");
    }
    FieldSource source = new FieldSource(type, "");
    places = places(schema, source);
    fields = fields(schema, source, places);
  }

  @Override
  protected void root(InternalRow struct) {
    for (int i = 0; i < fields.length; i++) {
      fields[i].put(struct, places[i]);
    }
  }

  private static int[] places(Schema schema, FieldSource source) {
    return schema.getFields().stream().mapToInt(field -> source.place(field.name())).toArray();
  }

  private Part[] fields(Schema schema, FieldSource source, int[] at) {
    List<Schema.Field> given = schema.getFields();
    Part[] parts = new Part[at.length];
    for (int i = 0; i < at.length; i++) {
      String name = given.get(i).name();
      String path = source.path().isEmpty() ? name : source.path() + "." + name;
      parts[i] = at[i] < 0 ? absent(given.get(i).schema(), path)
          : part(given.get(i).schema(), source.field(at[i], name));
    }
    return parts;
  }

  /** A field that the struct does not have is null. */
  private Part absent(Schema schema, String path) {
    if (schema.getType() == Schema.Type.NULL) {
      return (in, at) -> { };
    }
    int none = schema.getType() == Schema.Type.UNION ? branch(schema, Schema.Type.NULL) : -1;
    return (in, at) -> {
      if (none < 0) {
        throw bad(path, NULL);
      }
      zigzag(none);
    };
  }

  private static int branch(Schema union, Schema.Type type) {
    for (int i = 0; i < union.getTypes().size(); i++) {
      if (union.getTypes().get(i).getType() == type) {
        return i;
      }
    }
    return -1;
  }

  private Part part(Schema schema, FieldSource source) {
    if (schema.getType() == Schema.Type.UNION) {
      return union(schema, source);
    }
    if (schema.getType() == Schema.Type.NULL) {
      return (in, at) -> { };
    }
    Part inner = value(schema, source);
    return (in, at) -> {
      if (in.isNullAt(at)) {
        throw bad(source.path(), NULL);
      }
      inner.put(in, at);
    };
  }

  private Part union(Schema schema, FieldSource source) {
    List<Schema> members = AvroTypes.members(schema);
    Part none = absent(schema, source.path());
    if (members.isEmpty()) {
      return none;
    }
    if (members.size() == 1) {
      int branch = schema.getTypes().indexOf(members.get(0));
      Part inner = value(members.get(0), source);
      return (in, at) -> {
        if (in.isNullAt(at)) {
          none.put(in, at);
        } else {
          zigzag(branch);
          inner.put(in, at);
        }
      };
    }
    int count = members.size();
    int[] places = new int[count];
    int[] branches = new int[count];
    Part[] parts = new Part[count];
    for (int i = 0; i < count; i++) {
      String name = "member" + i;
      places[i] = source.place(name);
      branches[i] = schema.getTypes().indexOf(members.get(i));
      parts[i] = places[i] < 0 ? null
          : value(members.get(i), new FieldSource(source.field(places[i], name).type(), source.path()));
    }
    int size = source.fields();
    return (in, at) -> {
      InternalRow choice = in.isNullAt(at) ? null : in.getStruct(at, size);
      for (int i = 0; choice != null && i < count; i++) {
        if (places[i] >= 0 && !choice.isNullAt(places[i])) {
          zigzag(branches[i]);
          parts[i].put(choice, places[i]);
          return;
        }
      }
      none.put(in, at);
    };
  }

  /** A value that is not null. */
  private Part value(Schema schema, FieldSource source) {
    LogicalType logical = schema.getLogicalType();
    return switch (schema.getType()) {
      case BOOLEAN -> {
        source.bool();
        yield (in, at) -> one(in.getBoolean(at) ? 1 : 0);
      }
      case INT -> {
        if (logical instanceof LogicalTypes.Date) {
          source.date();
          yield (in, at) -> zigzag(in.getInt(at));
        }
        FieldSource.Whole number = source.whole(Integer.MIN_VALUE, Integer.MAX_VALUE, "an int");
        yield (in, at) -> zigzag(number.of(in, at));
      }
      case LONG -> whole(logical, source);
      case FLOAT -> {
        FieldSource.Real number = source.real("a float");
        yield (in, at) -> four(Float.floatToRawIntBits((float) number.of(in, at)));
      }
      case DOUBLE -> {
        FieldSource.Real number = source.real("a double");
        yield (in, at) -> eight(Double.doubleToRawLongBits(number.of(in, at)));
      }
      case STRING -> {
        source.string();
        yield (in, at) -> sized(in.getUTF8String(at));
      }
      case ENUM -> symbol(schema, source);
      case BYTES, FIXED -> raw(schema, source);
      case ARRAY -> array(schema, source);
      case MAP -> map(schema, source);
      case RECORD -> record(schema, source);
      default -> throw new IllegalArgumentException("a union within a union");
    };
  }

  private Part whole(LogicalType logical, FieldSource source) {
    boolean millis =
        logical instanceof LogicalTypes.TimestampMillis || logical instanceof LogicalTypes.LocalTimestampMillis;
    boolean micros =
        logical instanceof LogicalTypes.TimestampMicros || logical instanceof LogicalTypes.LocalTimestampMicros;
    if (!millis && !micros) {
      FieldSource.Whole number = source.whole(Long.MIN_VALUE, Long.MAX_VALUE, "a long");
      return (in, at) -> zigzag(number.of(in, at));
    }
    FieldSource.Whole moment = source.moment();
    if (micros) {
      return (in, at) -> zigzag(moment.of(in, at));
    }
    return (in, at) -> {
      long value = moment.of(in, at);
      if (value % 1000 != 0) {
        throw bad(source.path(), "the schema has milliseconds, and parts of one would be cut off");
      }
      zigzag(value / 1000);
    };
  }

  private void sized(UTF8String text) {
    zigzag(text.numBytes());
    text(text);
  }

  private Part symbol(Schema schema, FieldSource source) {
    source.string();
    Map<UTF8String, Integer> symbols = new HashMap<>();
    for (String each : schema.getEnumSymbols()) {
      symbols.put(UTF8String.fromString(each), symbols.size());
    }
    return (in, at) -> {
      Integer number = symbols.get(in.getUTF8String(at));
      if (number == null) {
        throw bad(source.path(), "the text is not a symbol of the enum");
      }
      zigzag(number);
    };
  }

  private Part raw(Schema schema, FieldSource source) {
    int size = schema.getType() == Schema.Type.FIXED ? schema.getFixedSize() : -1;
    if (AvroTypes.isDecimal(schema)) {
      LogicalTypes.Decimal kind = (LogicalTypes.Decimal) schema.getLogicalType();
      var number = source.decimal(kind.getPrecision(), kind.getScale());
      return (in, at) -> decimal(number.apply(in, at), size, source.path());
    }
    boolean isString = source.binary();
    return (in, at) -> {
      byte[] bytes = FieldSource.raw(in, at, isString);
      if (size < 0) {
        zigzag(bytes.length);
      } else if (bytes.length != size) {
        throw bad(source.path(), bytes.length + " bytes, and the schema has a fixed size of " + size);
      }
      bytes(bytes);
    };
  }

  /** Writes two's complement, most significant byte first: as few bytes as needed, or all of a fixed. */
  private void decimal(BigDecimal value, int size, String path) {
    byte[] bytes = value.unscaledValue().toByteArray();
    if (size < 0) {
      zigzag(bytes.length);
      bytes(bytes);
      return;
    }
    if (bytes.length > size) {
      throw bad(path, "a decimal has too many digits for its fixed size");
    }
    byte[] sign = new byte[size - bytes.length];
    Arrays.fill(sign, (byte) (bytes[0] < 0 ? -1 : 0));
    bytes(sign);
    bytes(bytes);
  }

  private Part array(Schema schema, FieldSource source) {
    Part element = part(schema.getElementType(), source.element());
    return (in, at) -> {
      ArrayData items = in.getArray(at);
      int count = items.numElements();
      if (count > 0) {
        zigzag(count);
      }
      for (int i = 0; i < count; i++) {
        element.put(items, i);
      }
      one(0);
    };
  }

  private Part map(Schema schema, FieldSource source) {
    source.mapKey().string();
    Part value = part(schema.getValueType(), source.mapValue());
    return (in, at) -> {
      MapData map = in.getMap(at);
      ArrayData keys = map.keyArray();
      ArrayData values = map.valueArray();
      if (map.numElements() > 0) {
        zigzag(map.numElements());
      }
      for (int i = 0; i < map.numElements(); i++) {
        sized(keys.getUTF8String(i));
        value.put(values, i);
      }
      one(0);
    };
  }

  private Part record(Schema schema, FieldSource source) {
    int[] at = places(schema, source);
    Part[] parts = fields(schema, source, at);
    int size = source.fields();
    return (in, place) -> {
      InternalRow struct = in.getStruct(place, size);
      for (int i = 0; i < parts.length; i++) {
        parts[i].put(struct, at[i]);
      }
    };
  }

  /** The parsed schema. */
  static Schema parse(byte[] text) {
    return AvroTypes.parse(new String(text, StandardCharsets.UTF_8));
  }
}
