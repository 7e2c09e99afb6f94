package bowstring.spark.values;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.Platform;

/** How a part of a JSON value is decoded, and into which column. */
final class JsonField {
  /** What the decoder does with a value; one for each way of reading. */
  enum Kind { BOOLEAN, INTEGER, FLOAT, DOUBLE, DECIMAL, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, LIST, MAP, STRUCT }

  final Kind kind;
  final ValueColumn column;

  /** For messages: {@code order.lines[].price}. */
  final String path;

  /** The name in UTF-8. */
  final byte[] name;

  /** Bounds of an integer. */
  final long least;

  final long most;

  /** Fields of a struct; the element of a list, the value of a map. */
  final JsonField[] fields;

  private final Map<String, JsonField> byText = new HashMap<>();

  private JsonField(Kind kind, ValueColumn column, String path, String name, long most, JsonField... fields) {
    this.kind = kind;
    this.column = column;
    this.path = path;
    this.name = name.getBytes(StandardCharsets.UTF_8);
    this.most = most;
    this.least = -most - 1;
    this.fields = fields;
    for (JsonField field : fields) {
      byText.put(new String(field.name, StandardCharsets.UTF_8), field);
    }
  }

  /** The plan for a value and its columns. */
  static JsonField of(StructType type, StructType shown, boolean checked, ValueColumns columns) {
    return new Planner(checked, columns).struct(type, shown, "", "");
  }

  /** Whether the bytes at {@code at} are this field's name and its closing quote; enough bytes are available. */
  boolean isNamed(Object base, long at) {
    byte[] expected = name;
    for (int i = 0; i < expected.length; i++) {
      if (Platform.getByte(base, at + i) != expected[i]) {
        return false;
      }
    }
    return Platform.getByte(base, at + expected.length) == '"';
  }

  JsonField named(String text) {
    return byText.get(text);
  }

  /** Builds the plan; {@code checked}: fields that are not shown are decoded, too. */
  private record Planner(boolean checked, ValueColumns columns) {
    JsonField struct(StructType type, DataType shown, String path, String name) {
      DataType visible = shown == null ? type : shown;
      ValueColumn[] places = new ValueColumn[shown == null ? 0 : ((StructType) shown).length()];
      List<JsonField> fields = new ArrayList<>();
      for (StructField field : type.fields()) {
        int place = ValueColumns.place(shown, field.name());
        if (place < 0 && !checked) {
          continue;
        }
        DataType below = place < 0 ? null : ((StructType) shown).fields()[place].dataType();
        String at = path.isEmpty() ? field.name() : path + "." + field.name();
        JsonField child = plan(field.dataType(), below, at, field.name());
        if (place >= 0) {
          places[place] = child.column;
        }
        fields.add(child);
      }
      ValueColumn[] decoded = fields.stream().map(field -> field.column).toArray(ValueColumn[]::new);
      StructColumn column = new StructColumn(visible, places, decoded);
      return new JsonField(Kind.STRUCT, column, path, name, 0, fields.toArray(JsonField[]::new));
    }

    private JsonField plan(DataType type, DataType shown, String path, String name) {
      if (type instanceof StructType struct) {
        return struct(struct, shown, path, name);
      }
      DataType visible = shown == null ? type : shown;
      if (type instanceof ArrayType array) {
        JsonField element = plan(array.elementType(), ValueColumns.element(shown), path + "[]", "");
        ListColumn column = new ListColumn(visible, false, null, element.column);
        return new JsonField(Kind.LIST, column, path, name, 0, element);
      }
      if (type instanceof MapType map) {
        if (!(map.keyType() instanceof StringType)) {
          throw new IllegalArgumentException("option value.schema: the keys of " + path + " must be strings");
        }
        JsonField value = plan(map.valueType(), ValueColumns.element(shown), path + "{}", "");
        ListColumn column = new ListColumn(visible, false, columns.leaf(map.keyType(), false), value.column);
        return new JsonField(Kind.MAP, column, path, name, 0, value);
      }
      return new JsonField(kind(type), columns.leaf(type, false), path, name, most(type));
    }

    private static long most(DataType type) {
      if (type instanceof ByteType) {
        return Byte.MAX_VALUE;
      }
      if (type instanceof ShortType) {
        return Short.MAX_VALUE;
      }
      return type instanceof IntegerType ? Integer.MAX_VALUE : Long.MAX_VALUE;
    }

    private static Kind kind(DataType type) {
      if (type instanceof StringType) {
        return Kind.STRING;
      } else if (type instanceof BooleanType) {
        return Kind.BOOLEAN;
      } else if (type instanceof FloatType) {
        return Kind.FLOAT;
      } else if (type instanceof DoubleType) {
        return Kind.DOUBLE;
      } else if (type instanceof DecimalType) {
        return Kind.DECIMAL;
      } else if (type instanceof BinaryType) {
        return Kind.BINARY;
      } else if (type instanceof DateType) {
        return Kind.DATE;
      } else if (type instanceof TimestampType) {
        return Kind.TIMESTAMP;
      } else if (type instanceof TimestampNTZType) {
        return Kind.TIMESTAMP_NTZ;
      } else if (ValueColumns.isFixed(type)) {
        return Kind.INTEGER;
      }
      throw new IllegalArgumentException("option value.schema: JSON cannot represent the type " + type.simpleString());
    }
  }
}
