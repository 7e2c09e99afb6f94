package bowstring.spark.values;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/** A field of a Protobuf message, and the column for its values. */
final class ProtobufField {
  /** How values are read. */
  enum Kind { VARINT, UNSIGNED, ZIGZAG, FIXED4, FIXED8, BOOLEAN, STRING, BYTES, ENUM, MESSAGE, WRAPPER, TIMESTAMP }

  static final int VARINT = 0;
  static final int EIGHT = 1;
  static final int SIZED = 2;
  static final int GROUP = 3;
  static final int FOUR = 5;

  final int number;
  final Kind kind;
  final int wire;
  final boolean repeated;
  final boolean isMap;
  final String path;

  /** Whether values are cut to 32 bits, signed or not. */
  final boolean narrow;

  final boolean signed;

  /** The column of the field; of a repeated one, the list's. */
  final ValueColumn column;

  /** The column of one value. */
  final ValueColumn target;

  final ProtobufField[] parts;
  final ProtobufTypes.Names names;

  /** For a map: the keys of the present row. */
  final MapKeys keys;

  /** The other fields of its oneof; set when all fields are known. */
  ValueColumn[] siblings = {};

  private ProtobufField(ProtobufTypes.Field field, Kind kind, boolean isMap, String path, ValueColumn column,
      ValueColumn target, ProtobufTypes.Names names, ProtobufField... parts) {
    this.number = field.number;
    this.kind = kind;
    this.wire = wire(field.type);
    this.repeated = field.repeated;
    this.isMap = isMap;
    this.path = path;
    this.narrow = field.type == 5 || field.type == 13 || field.type == 17;
    this.signed = field.type != 13 && field.type != 7;
    this.column = column;
    this.target = target;
    this.parts = parts;
    this.names = names;
    this.keys = isMap ? new MapKeys(((ListColumn) column).keys) : null;
  }

  private static int wire(int type) {
    return switch (type) {
      case 1, 6, 16 -> EIGHT;
      case 2, 7, 15 -> FOUR;
      case 9, 11, 12 -> SIZED;
      case 10 -> GROUP;
      default -> VARINT;
    };
  }

  /** The plan for a message: its fields, and the column of its struct. */
  record Plan(StructColumn column, ProtobufField[] fields) {}

  /** The plan for a message: {@code shown} is what Spark sees; {@code checked}: the rest is decoded, too. */
  static Plan of(ProtobufTypes types, ProtobufTypes.Message message, StructType type, StructType shown,
      boolean checked, ValueColumns columns) {
    return new Planner(types, checked, columns).struct(message, type, shown, "");
  }

  /** Builds the plan. */
  private record Planner(ProtobufTypes types, boolean checked, ValueColumns columns) {
    Plan struct(ProtobufTypes.Message message, StructType type, DataType shown, String path) {
      ValueColumn[] places = new ValueColumn[shown == null ? 0 : ((StructType) shown).length()];
      List<ProtobufField> fields = new ArrayList<>();
      List<Integer> oneofs = new ArrayList<>();
      for (ProtobufTypes.Field field : message.fields()) {
        int place = ValueColumns.place(shown, field.name);
        // All fields of a oneof are decoded, because each clears the others.
        if (place < 0 && !checked && field.oneof < 0) {
          continue;
        }
        DataType visible = place < 0 ? null : ((StructType) shown).fields()[place].dataType();
        String below = path.isEmpty() ? field.name : path + "." + field.name;
        boolean zeroed = field.implicit(message.proto2());
        ProtobufField made = plan(field, type.apply(field.name).dataType(), visible, zeroed, below);
        if (place >= 0) {
          places[place] = made.column;
        }
        fields.add(made);
        oneofs.add(field.oneof);
      }
      ProtobufField[] all = fields.toArray(ProtobufField[]::new);
      for (int i = 0; i < all.length; i++) {
        all[i].siblings = siblings(all, oneofs, i);
      }
      ValueColumn[] decoded = fields.stream().map(field -> field.column).toArray(ValueColumn[]::new);
      return new Plan(new StructColumn(shown == null ? type : shown, places, decoded), all);
    }

    private static ValueColumn[] siblings(ProtobufField[] all, List<Integer> oneofs, int of) {
      List<ValueColumn> found = new ArrayList<>();
      for (int i = 0; i < all.length; i++) {
        if (i != of && oneofs.get(of) >= 0 && oneofs.get(i).equals(oneofs.get(of))) {
          found.add(all[i].column);
        }
      }
      return found.toArray(ValueColumn[]::new);
    }

    private ProtobufField plan(
        ProtobufTypes.Field field, DataType type, DataType shown, boolean zeroed, String path) {
      DataType visible = shown == null ? type : shown;
      ProtobufTypes.Message inner = types.messages.get(field.typeName);
      if (inner != null && inner.isEntry()) {
        MapType map = (MapType) type;
        ProtobufField key = plan(inner.field(1), map.keyType(), null, true, path);
        boolean zeroedValue = inner.field(2).type != 11;
        ProtobufField value =
            plan(inner.field(2), map.valueType(), ValueColumns.element(shown), zeroedValue, path + "{}");
        ListColumn list = new ListColumn(visible, true, key.column, value.column);
        return new ProtobufField(field, Kind.MESSAGE, true, path, list, value.column, null, key, value);
      }
      DataType item = field.repeated ? ((ArrayType) type).elementType() : type;
      DataType shownItem = field.repeated ? ValueColumns.element(shown) : shown;
      ValueColumn target;
      ProtobufField[] parts = {};
      Kind kind = kind(field);
      ProtobufTypes.Names names = types.enums.get(field.typeName);
      if (kind == Kind.MESSAGE) {
        Plan plan = struct(inner, (StructType) item, shownItem, path);
        target = plan.column;
        parts = plan.fields;
      } else if (kind == Kind.ENUM && zeroed) {
        byte[] first = names.byNumber().values().iterator().next();
        target = columns.keep(new BytesColumn(item, true, first));
      } else {
        target = columns.leaf(item, zeroed);
      }
      if (kind == Kind.WRAPPER) {
        parts = new ProtobufField[] {wrapped(inner.field(1), target, path)};
      }
      ValueColumn column = field.repeated ? new ListColumn(visible, true, null, target) : target;
      return new ProtobufField(field, kind, false, path, column, target, names, parts);
    }

    private static ProtobufField wrapped(ProtobufTypes.Field field, ValueColumn target, String path) {
      return new ProtobufField(field, kind(field), false, path, target, target, null);
    }

    private static Kind kind(ProtobufTypes.Field field) {
      if (field.typeName.equals(ProtobufTypes.TIMESTAMP)) {
        return Kind.TIMESTAMP;
      }
      if (ProtobufTypes.isWrapper(field.typeName)) {
        return Kind.WRAPPER;
      }
      return KINDS.getOrDefault(field.type, Kind.VARINT);
    }
  }

  private static final Map<Integer, Kind> KINDS = Map.ofEntries(
      Map.entry(1, Kind.FIXED8), Map.entry(2, Kind.FIXED4), Map.entry(4, Kind.UNSIGNED), Map.entry(6, Kind.FIXED8),
      Map.entry(7, Kind.FIXED4), Map.entry(8, Kind.BOOLEAN), Map.entry(9, Kind.STRING), Map.entry(10, Kind.MESSAGE),
      Map.entry(11, Kind.MESSAGE), Map.entry(12, Kind.BYTES), Map.entry(14, Kind.ENUM), Map.entry(15, Kind.FIXED4),
      Map.entry(16, Kind.FIXED8), Map.entry(17, Kind.ZIGZAG), Map.entry(18, Kind.ZIGZAG));
}
