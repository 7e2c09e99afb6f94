package bowstring.spark.values;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/**
 * The messages and enums of a FileDescriptorSet, parsed here, because PySpark's jars have protobuf only inside other
 * jars. Types are those of from_protobuf, except uint32, which is a long here so that all values fit.
 */
final class ProtobufTypes {
  /** An enum: names by number, the default first. */
  record Names(Map<Integer, byte[]> byNumber, boolean closed) {}

  /** A field, as its descriptor has it. */
  static final class Field {
    String name = "";
    int number;
    boolean repeated;
    int type;
    String typeName = "";
    int oneof = -1;
    boolean optional;
    boolean packed;

    /** Whether a missing value is the type's zero, not null. */
    boolean implicit(boolean proto2) {
      return !proto2 && !repeated && oneof < 0 && !optional && type != 10 && type != 11;
    }
  }

  /** A message: its fields in the order of their declaration. */
  record Message(String name, List<Field> fields, boolean isEntry, boolean proto2, int[] indexes) {
    /** The place of the message in its file, as it stands before values: the first message is a single zero. */
    byte[] indexBytes() {
      if (indexes.length == 1 && indexes[0] == 0) {
        return new byte[1];
      }
      ByteBuffer out = ByteBuffer.allocate(5 * (indexes.length + 1));
      putZigzag(out, indexes.length);
      for (int each : indexes) {
        putZigzag(out, each);
      }
      return java.util.Arrays.copyOf(out.array(), out.position());
    }

    private static void putZigzag(ByteBuffer out, int number) {
      int rest = number << 1;
      while (rest >= 0x80) {
        out.put((byte) (rest | 0x80));
        rest >>>= 7;
      }
      out.put((byte) rest);
    }

    Field field(int number) {
      return fields.stream().filter(each -> each.number == number).findFirst().orElseThrow();
    }
  }

  static final String TIMESTAMP = ".google.protobuf.Timestamp";
  static final String DURATION = ".google.protobuf.Duration";
  private static final List<String> WRAPPED = List.of("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool",
      "String", "Bytes");

  final Map<String, Message> messages = new HashMap<>();
  final Map<String, Names> enums = new HashMap<>();

  /** Reads a FileDescriptorSet. */
  ProtobufTypes(byte[] set) {
    List<Parsed> files = new ArrayList<>();
    try {
      new Parsed(set).all(1).forEach(file -> files.add(new Parsed(file)));
    } catch (RuntimeException e) {
      throw new IllegalArgumentException(
          "option value.schema is not a FileDescriptorSet (protoc --include_imports --descriptor_set_out): " + e, e);
    }
    files.forEach(this::file);
    addKnown();
    messages.forEach((scope, message) -> message.fields.forEach(field -> field.typeName = whole(field.typeName, scope)));
  }

  /** The full name of a type: registries that parse .proto texts write names as they stand there. */
  private String whole(String name, String from) {
    if (name.isEmpty() || name.startsWith(".")) {
      return name;
    }
    for (String scope = from; ; scope = scope.substring(0, scope.lastIndexOf('.'))) {
      String found = scope + "." + name;
      if (messages.containsKey(found) || enums.containsKey(found)) {
        return found;
      }
      if (scope.isEmpty()) {
        return "." + name;
      }
    }
  }

  /** Adds the files that schemas import without bringing them along, as far as their messages become columns. */
  private void addKnown() {
    int[] types = {1, 2, 3, 4, 5, 13, 8, 9, 12};
    for (int i = 0; i < types.length; i++) {
      known(WRAPPED.get(i) + "Value", one("value", 1, types[i], false));
    }
    known("Timestamp", one("seconds", 1, 3, false), one("nanos", 2, 5, false));
    known("Duration", one("seconds", 1, 3, false), one("nanos", 2, 5, false));
    known("FieldMask", one("paths", 1, 9, true));
    known("Empty");
    known("Any", one("type_url", 1, 9, false), one("value", 2, 12, false));
  }

  private void known(String name, Field... fields) {
    String full = ".google.protobuf." + name;
    messages.putIfAbsent(full, new Message(full, List.of(fields), false, false, new int[] {0}));
  }

  private static Field one(String name, int number, int type, boolean repeated) {
    Field field = new Field();
    field.name = name;
    field.number = number;
    field.type = type;
    field.repeated = repeated;
    return field;
  }

  /** The struct of a message. */
  static StructType struct(byte[] set, String message) {
    ProtobufTypes types = new ProtobufTypes(set);
    return types.struct(types.message(message), new HashSet<>());
  }

  /** The full name of the first message of the last file of a set. */
  static String firstMessage(byte[] set) {
    List<byte[]> files = new Parsed(set).all(1);
    Parsed last = new Parsed(files.get(files.size() - 1));
    if (last.all(4).isEmpty()) {
      throw new IllegalArgumentException("the newest schema of the subject has no message");
    }
    String name = new Parsed(last.all(4).get(0)).text(1);
    return last.text(2).isEmpty() ? name : last.text(2) + "." + name;
  }

  /** The message with a full name. */
  Message message(String name) {
    Message found = name == null ? null : messages.get(name.startsWith(".") ? name : "." + name);
    if (found == null) {
      throw new IllegalArgumentException(
          "option value.message=" + name + " is not in the FileDescriptorSet, which has " + messages.keySet());
    }
    return found;
  }

  /** Whether a message is one of google.protobuf's that wrap one value. */
  static boolean isWrapper(String name) {
    return name.startsWith(".google.protobuf.") && name.endsWith("Value")
        && WRAPPED.contains(name.substring(".google.protobuf.".length(), name.length() - "Value".length()));
  }

  private void file(Parsed file) {
    if (file.text(12).equals("editions")) {
      throw new IllegalArgumentException("option value.schema: " + file.text(1) + " uses an edition of Protobuf, which "
          + "this engine does not support: use syntax proto2 or proto3, or option engine=python");
    }
    String scope = file.text(2).isEmpty() ? "" : "." + file.text(2);
    boolean proto2 = !file.text(12).equals("proto3");
    file.all(5).forEach(each -> names(new Parsed(each), scope, proto2));
    List<byte[]> nested = file.all(4);
    for (int i = 0; i < nested.size(); i++) {
      message(new Parsed(nested.get(i)), scope, proto2, new int[] {i});
    }
  }

  private void names(Parsed parsed, String scope, boolean proto2) {
    Map<Integer, byte[]> byNumber = new LinkedHashMap<>();
    for (byte[] value : parsed.all(2)) {
      Parsed each = new Parsed(value);
      byNumber.putIfAbsent((int) each.number(2), each.text(1).getBytes(StandardCharsets.UTF_8));
    }
    enums.put(scope + "." + parsed.text(1), new Names(byNumber, proto2));
  }

  private void message(Parsed parsed, String scope, boolean proto2, int[] indexes) {
    String name = scope + "." + parsed.text(1);
    List<Field> fields = new ArrayList<>();
    for (byte[] each : parsed.all(2)) {
      fields.add(field(new Parsed(each), proto2));
    }
    boolean isEntry = new Parsed(parsed.bytes(7)).number(7) != 0;
    messages.put(name, new Message(name, fields, isEntry, proto2, indexes));
    parsed.all(4).forEach(each -> names(new Parsed(each), name, proto2));
    List<byte[]> nested = parsed.all(3);
    for (int i = 0; i < nested.size(); i++) {
      int[] below = java.util.Arrays.copyOf(indexes, indexes.length + 1);
      below[indexes.length] = i;
      message(new Parsed(nested.get(i)), name, proto2, below);
    }
  }

  private static Field field(Parsed parsed, boolean proto2) {
    Field field = new Field();
    field.name = parsed.text(1);
    field.number = (int) parsed.number(3);
    field.repeated = parsed.number(4) == 3;
    field.type = (int) parsed.number(5);
    field.typeName = parsed.text(6);
    field.optional = parsed.number(17) != 0;
    Parsed options = new Parsed(parsed.bytes(8));
    boolean packable = field.repeated && (field.type < 9 || field.type > 12);
    field.packed = packable && (options.has(2) ? options.number(2) != 0 : !proto2);
    field.oneof = parsed.has(9) && !field.optional ? (int) parsed.number(9) : -1;
    return field;
  }

  private StructType struct(Message message, Set<String> open) {
    if (!open.add(message.name)) {
      throw new IllegalArgumentException("option value.message: " + message.name + " contains itself, which columns cannot represent");
    }
    StructType struct = new StructType();
    for (Field field : message.fields) {
      struct = struct.add(field.name, type(field, open), true);
    }
    open.remove(message.name);
    return struct;
  }

  private DataType type(Field field, Set<String> open) {
    Message inner = messages.get(field.typeName);
    if (inner != null && inner.isEntry) {
      return new MapType(type(inner.field(1), open), type(inner.field(2), open), true);
    }
    DataType one = switch (field.type) {
      case 1 -> DataTypes.DoubleType;
      case 2 -> DataTypes.FloatType;
      case 3, 16, 18, 7, 13 -> DataTypes.LongType;
      case 4, 6 -> DataTypes.createDecimalType(20, 0);
      case 5, 15, 17 -> DataTypes.IntegerType;
      case 8 -> DataTypes.BooleanType;
      case 9, 14 -> DataTypes.StringType;
      case 12 -> DataTypes.BinaryType;
      default -> inner(field, inner, open);
    };
    return field.repeated ? new ArrayType(one, true) : one;
  }

  private DataType inner(Field field, Message inner, Set<String> open) {
    if (inner == null) {
      throw new IllegalArgumentException(
          "option value.schema: " + field.typeName + " is missing; use protoc --include_imports");
    }
    if (inner.name.equals(TIMESTAMP)) {
      return DataTypes.TimestampType;
    }
    return isWrapper(inner.name) ? type(inner.field(1), open) : struct(inner, open);
  }

  /** A message of which only the wire format is known. */
  static final class Parsed {
    private final Map<Integer, List<byte[]>> bytes = new HashMap<>();
    private final Map<Integer, Long> numbers = new HashMap<>();

    Parsed(byte[] message) {
      ByteBuffer at = ByteBuffer.wrap(message).order(ByteOrder.LITTLE_ENDIAN);
      while (at.hasRemaining()) {
        long tag = varint(at);
        int number = (int) (tag >>> 3);
        switch ((int) tag & 7) {
          case 0 -> numbers.put(number, varint(at));
          case 1 -> numbers.put(number, at.getLong());
          case 2 -> {
            byte[] part = new byte[Math.toIntExact(Math.min(varint(at), at.remaining()))];
            at.get(part);
            bytes.computeIfAbsent(number, key -> new ArrayList<>()).add(part);
          }
          case 5 -> numbers.put(number, (long) at.getInt());
          default -> throw new IllegalArgumentException("an unknown wire type: " + (tag & 7));
        }
      }
    }

    private static long varint(ByteBuffer at) {
      long value = 0;
      for (int shift = 0; shift < 70; shift += 7) {
        byte b = at.get();
        value |= (long) (b & 0x7f) << shift;
        if (b >= 0) {
          return value;
        }
      }
      throw new IllegalArgumentException("a number has more than ten bytes");
    }

    boolean has(int number) {
      return numbers.containsKey(number);
    }

    long number(int number) {
      return numbers.getOrDefault(number, 0L);
    }

    List<byte[]> all(int number) {
      return bytes.getOrDefault(number, List.of());
    }

    byte[] bytes(int number) {
      List<byte[]> all = all(number);
      return all.isEmpty() ? new byte[0] : all.get(all.size() - 1);
    }

    String text(int number) {
      return new String(bytes(number), StandardCharsets.UTF_8);
    }
  }
}
