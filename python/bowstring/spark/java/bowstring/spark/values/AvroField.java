package bowstring.spark.values;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/** A part of an Avro schema, and the column for its values. */
final class AvroField {
  final Schema.Type kind;

  /** Null if values are skipped. */
  final ValueColumn column;

  final String path;

  /** Fields, branches, or the one element. */
  final AvroField[] parts;

  /** Whether values are skipped, with everything inside. */
  final boolean skipped;

  /** Size of a fixed in bytes. */
  final int size;

  /** A long is multiplied by this: timestamps in milliseconds become microseconds. */
  final long factor;

  /** Scale of a decimal, -1 for other types. */
  final int scale;

  /** Symbols of an enum; null for those that the reader does not have. */
  final byte[][] symbols;

  /** The reader's type to which a number is promoted. */
  final Schema.Type becomes;

  /** The default of a field that the writer does not have, encoded like its one part. */
  byte[] fill;

  /** Why a branch of the writer's union cannot be read. */
  String fault;

  private AvroField(Schema schema, ValueColumn column, String path, AvroField... parts) {
    this(schema.getType(), schema, schema, column, false, path, parts);
  }

  private AvroField(Schema.Type kind, Schema written, Schema read, ValueColumn column, boolean skipped, String path,
      AvroField... parts) {
    this.kind = kind;
    this.column = column;
    this.skipped = skipped;
    this.path = path;
    this.parts = parts;
    this.size = kind == Schema.Type.FIXED ? written.getFixedSize() : 0;
    LogicalType logical = read.getLogicalType();
    boolean millis =
        logical instanceof LogicalTypes.TimestampMillis || logical instanceof LogicalTypes.LocalTimestampMillis;
    this.factor = read.getType() == Schema.Type.LONG && millis ? 1000 : 1;
    this.scale = AvroTypes.isDecimal(read) ? ((LogicalTypes.Decimal) logical).getScale() : -1;
    this.symbols = kind == Schema.Type.ENUM ? symbols(written, read) : new byte[0][];
    boolean real = read.getType() == Schema.Type.FLOAT || read.getType() == Schema.Type.DOUBLE;
    this.becomes = real && read.getType() != kind ? read.getType() : null;
  }

  private static byte[][] symbols(Schema written, Schema read) {
    byte[][] symbols = new byte[written.getEnumSymbols().size()][];
    for (int i = 0; i < symbols.length; i++) {
      String symbol = written.getEnumSymbols().get(i);
      String known = read.hasEnumSymbol(symbol) ? symbol : read.getEnumDefault();
      symbols[i] = known == null ? null : known.getBytes(StandardCharsets.UTF_8);
    }
    return symbols;
  }

  /** Values of a writer's type in the column of a reader's type. */
  static AvroField resolved(Schema written, Schema read, ValueColumn column, String path, AvroField... parts) {
    return new AvroField(written.getType(), written, read, column, false, path, parts);
  }

  /** A value of one type that the reader declares as a union, and thus as a struct. */
  static AvroField around(Schema read, ValueColumn column, AvroField member) {
    return new AvroField(Schema.Type.RECORD, read, read, column, false, member.path, member);
  }

  /** A field that is filled with a default. */
  static AvroField filled(Schema read, AvroField field, byte[] fill) {
    AvroField made = new AvroField(Schema.Type.RECORD, read, read, null, false, field.path, field);
    made.fill = fill;
    return made;
  }

  /** A branch that makes the value bad. */
  static AvroField wrong(Schema written, String path, String fault) {
    AvroField made = over(written, path);
    made.fault = fault;
    return made;
  }

  /** Values that are skipped. */
  static AvroField over(Schema schema, String path) {
    List<Schema> inner = switch (schema.getType()) {
      case RECORD -> schema.getFields().stream().map(Schema.Field::schema).toList();
      case UNION -> schema.getTypes();
      case ARRAY -> List.of(schema.getElementType());
      case MAP -> List.of(schema.getValueType());
      default -> List.of();
    };
    AvroField[] parts = inner.stream().map(s -> over(s, path)).toArray(AvroField[]::new);
    return new AvroField(schema.getType(), schema, schema, null, true, path, parts);
  }

  /** The plan for a record: {@code shown} is what Spark sees of it; {@code checked}: the rest is decoded, too. */
  static AvroField of(Schema schema, StructType type, StructType shown, boolean checked, ValueColumns columns) {
    return new Planner(checked, columns).struct(schema, type, shown, "", schema.getFields());
  }

  /** Builds the plan. */
  private record Planner(boolean checked, ValueColumns columns) {
    /** A record, or a union of several types, each of which is a field. */
    AvroField struct(Schema schema, StructType type, DataType shown, String path, List<Schema.Field> fields) {
      List<Schema> schemas = new ArrayList<>();
      if (fields == null) {
        schemas.addAll(schema.getTypes());
      } else {
        fields.forEach(field -> schemas.add(field.schema()));
      }
      ValueColumn[] places = new ValueColumn[shown == null ? 0 : ((StructType) shown).length()];
      List<ValueColumn> decoded = new ArrayList<>();
      AvroField[] parts = new AvroField[schemas.size()];
      int member = 0;
      for (int i = 0; i < parts.length; i++) {
        Schema part = schemas.get(i);
        if (fields == null && part.getType() == Schema.Type.NULL) {
          parts[i] = over(part, path);
          continue;
        }
        String name = fields == null ? "member" + member++ : fields.get(i).name();
        int place = ValueColumns.place(shown, name);
        String below = fields == null ? path : path.isEmpty() ? name : path + "." + name;
        if (place < 0 && !checked) {
          parts[i] = over(part, below);
          continue;
        }
        DataType visible = place < 0 ? null : ((StructType) shown).fields()[place].dataType();
        parts[i] = plan(part, type.apply(name).dataType(), visible, below);
        ValueColumn column = parts[i].target();
        if (place >= 0) {
          places[place] = column;
        }
        decoded.add(column);
      }
      StructColumn column =
          new StructColumn(shown == null ? type : shown, places, decoded.toArray(ValueColumn[]::new));
      return new AvroField(schema, column, path, parts);
    }

    private AvroField plan(Schema schema, DataType type, DataType shown, String path) {
      DataType visible = shown == null ? type : shown;
      switch (schema.getType()) {
        case RECORD:
          return struct(schema, (StructType) type, shown, path, schema.getFields());
        case UNION:
          return union(schema, type, shown, path);
        case ARRAY:
          AvroField element = plan(
              schema.getElementType(), ((ArrayType) type).elementType(), ValueColumns.element(shown), path + "[]");
          return new AvroField(schema, new ListColumn(visible, false, null, element.target()), path, element);
        case MAP:
          AvroField value = plan(
              schema.getValueType(), ((MapType) type).valueType(), ValueColumns.element(shown), path + "{}");
          ValueColumn keys = columns.leaf(DataTypes.StringType, false);
          return new AvroField(schema, new ListColumn(visible, false, keys, value.target()), path, value);
        default:
          return new AvroField(schema, columns.leaf(type, false), path);
      }
    }

    private AvroField union(Schema schema, DataType type, DataType shown, String path) {
      List<Schema> members = AvroTypes.members(schema);
      if (members.size() > 1) {
        return struct(schema, (StructType) type, shown, path, null);
      }
      // Null and one type: both branches use the type's own column; the union marks none.
      AvroField[] parts = new AvroField[schema.getTypes().size()];
      for (int i = 0; i < parts.length; i++) {
        Schema branch = schema.getTypes().get(i);
        parts[i] = branch.getType() == Schema.Type.NULL ? over(branch, path) : plan(branch, type, shown, path);
      }
      if (members.isEmpty()) {
        parts[0] = new AvroField(schema.getTypes().get(0), columns.leaf(type, false), path);
      }
      return new AvroField(schema, null, path, parts);
    }
  }

  /** The column for the values: a union of null and one type has none but that type's. */
  ValueColumn target() {
    ValueColumn found = column;
    for (int i = 0; found == null && i < parts.length; i++) {
      found = parts[i].column;
    }
    return found;
  }
}
