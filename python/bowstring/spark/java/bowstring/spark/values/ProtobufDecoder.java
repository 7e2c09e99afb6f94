package bowstring.spark.values;

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/** Decodes Protobuf's wire format into columns; fields come in any order, repeatedly, or not at all. */
final class ProtobufDecoder extends ValueDecoder {
  private static final int DEPTH_MAX = 100;
  private static final int GROUP_END = 4;
  private static final long SECONDS_MAX = 315_576_000_000L;

  private final ProtobufField.Plan plan;
  private final int[] indexes;
  private long begin;
  private long at;

  /** Entries of maps whose key comes again in the present record. */
  private final Set<Long> superseded = new HashSet<>();

  ProtobufDecoder(ValueFormat format, StructType shown, boolean checked) {
    super(format);
    ProtobufTypes types = new ProtobufTypes(format.definition());
    ProtobufTypes.Message message = types.message(format.message());
    plan = ProtobufField.of(types, message, format.schema(), shown, checked, columns);
    indexes = message.indexes();
    root = plan.column();
  }

  @Override
  protected long payload(long from, long end) {
    begin = from;
    at = from;
    long count = varint(end) >>> 1;
    boolean same = count == 0 ? indexes.length == 1 && indexes[0] == 0 : count == indexes.length;
    for (int i = 0; i < count && same; i++) {
      same = varint(end) >>> 1 == indexes[i];
    }
    if (!same) {
      throw bad("the value is another message of the schema's file");
    }
    return at;
  }

  @Override
  protected void record(int row, long from, long end) {
    superseded.clear();
    once(row, from, end);
    if (!superseded.isEmpty()) { // the last of equal keys counts: decode again without the others
      root.clear(row);
      once(row, from, end);
    }
  }

  private void once(int row, long from, long end) {
    begin = from;
    at = from;
    root.set(row);
    message(plan.fields(), row, end, 0, 0);
  }

  private BadValueException wrong(String why, ProtobufField field) {
    return bad("at byte " + (at - begin) + ": " + why + (field == null ? "" : " in " + field.path));
  }

  private long varint(long end) {
    long total = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at >= end) {
        throw wrong("the value is truncated", null);
      }
      long b = Platform.getByte(base, at++);
      total |= (b & 0x7f) << shift;
      if (b >= 0) {
        return total;
      }
    }
    throw wrong("a number has more than ten bytes", null);
  }

  /** Takes {@code size} bytes and returns where they begin. */
  private long take(long size, long end) {
    if (size < 0 || size > end - at) {
      throw wrong("a length exceeds the value", null);
    }
    at += size;
    return at - size;
  }

  /** Decodes the fields of a message up to {@code end}, or to the end of a group. */
  private void message(ProtobufField[] fields, int row, long end, int group, int depth) {
    if (depth >= DEPTH_MAX) {
      throw wrong("nested more than " + DEPTH_MAX + " deep", null);
    }
    int next = 0;
    while (at < end) {
      long tag = varint(end);
      int number = (int) (tag >>> 3);
      if (tag >>> 32 != 0 || number == 0) {
        throw wrong("a field number is out of range", null);
      }
      if ((tag & 7) == GROUP_END) {
        if (number != group) {
          throw wrong("a group ends without having begun", null);
        }
        return;
      }
      int place = place(fields, number, next);
      if (place < 0) {
        skip(tag, end, depth);
      } else {
        next = place + 1;
        field(fields[place], row, (int) tag & 7, tag, end, depth);
      }
    }
    if (group != 0) {
      throw wrong("a group does not end", null);
    }
  }

  /** The index of a field, -1 if it is not decoded; {@code next} is the most likely one. */
  private static int place(ProtobufField[] fields, int number, int next) {
    if (next < fields.length && fields[next].number == number) {
      return next;
    }
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].number == number) {
        return i;
      }
    }
    return -1;
  }

  private void field(ProtobufField field, int row, int wire, long tag, long end, int depth) {
    if (field.repeated) {
      repeated(field, row, wire, tag, end, depth);
      return;
    }
    if (wire != field.wire) {
      skip(tag, end, depth);
      return;
    }
    for (ValueColumn sibling : field.siblings) {
      if (sibling.isSet(row)) {
        sibling.clear(row);
      }
    }
    value(field, row, end, depth);
  }

  private void repeated(ProtobufField field, int row, int wire, long tag, long end, int depth) {
    boolean packed = wire == ProtobufField.SIZED && wire != field.wire && field.wire != ProtobufField.GROUP;
    if (wire != field.wire && !packed) {
      skip(tag, end, depth);
      return;
    }
    ListColumn list = (ListColumn) field.column;
    list.begin(row);
    if (field.isMap) {
      entry(field, list, row, end, depth);
    } else if (packed) {
      long size = varint(end);
      long until = take(size, end) + size;
      at = until - size;
      while (at < until) {
        value(field, list.add(row), until, depth);
      }
    } else {
      value(field, list.add(row), end, depth);
    }
  }

  private void entry(ProtobufField field, ListColumn list, int row, long end, int depth) {
    long place = at;
    long size = varint(end);
    long until = take(size, end) + size;
    if (!superseded.isEmpty() && superseded.contains(place)) {
      return;
    }
    at = until - size;
    boolean isFirst = list.count(row) == 0;
    int item = list.add(row);
    if (isFirst) {
      field.keys.begin(item);
    }
    if (field.target instanceof StructColumn struct) {
      struct.set(item);
    }
    message(field.parts, item, until, 0, depth + 1);
    long before = field.keys.add(place);
    if (before >= 0) {
      superseded.add(before);
    }
  }

  private void value(ProtobufField field, int row, long end, int depth) {
    switch (field.kind) {
      case STRING, BYTES -> bytes(field, row, end);
      case FIXED4 -> four(field, row, Platform.getInt(base, take(4, end)));
      case FIXED8 -> eight(field, row, Platform.getLong(base, take(8, end)));
      case BOOLEAN -> ((FixedColumn) field.target).set(row, varint(end) != 0 ? 1 : 0);
      case ENUM -> symbol(field, row, (int) varint(end));
      case MESSAGE, WRAPPER, TIMESTAMP -> nested(field, row, end, depth);
      case UNSIGNED -> eight(field, row, varint(end));
      default -> integer(field, row, varint(end));
    }
  }

  private void integer(ProtobufField field, int row, long value) {
    if (field.kind == ProtobufField.Kind.ZIGZAG) {
      long raw = field.narrow ? value & 0xffffffffL : value;
      ((FixedColumn) field.target).set(row, (raw >>> 1) ^ -(raw & 1));
    } else if (field.narrow) {
      ((FixedColumn) field.target).set(row, field.signed ? (int) value : value & 0xffffffffL);
    } else {
      ((FixedColumn) field.target).set(row, value);
    }
  }

  private static void four(ProtobufField field, int row, int bits) {
    ((FixedColumn) field.target).set(row, field.signed ? bits : bits & 0xffffffffL);
  }

  /** Eight bytes: uint64 and fixed64 are decimals, because they do not fit a long. */
  private static void eight(ProtobufField field, int row, long bits) {
    if (field.target instanceof DecimalColumn decimals) {
      decimals.set(row, bits >= 0 ? BigDecimal.valueOf(bits) : new BigDecimal(Long.toUnsignedString(bits)));
    } else {
      ((FixedColumn) field.target).set(row, bits);
    }
  }

  private void symbol(ProtobufField field, int row, int number) {
    byte[] name = field.names.byNumber().get(number);
    if (name == null && !field.names.closed()) {
      name = Integer.toString(number).getBytes(StandardCharsets.US_ASCII);
    }
    if (name != null) {
      ((BytesColumn) field.target).copy(row, name, name.length);
    }
  }

  private void bytes(ProtobufField field, int row, long end) {
    long size = varint(end);
    long where = take(size, end);
    if (field.kind == ProtobufField.Kind.STRING && !Utf8.isValid(base, where, at)) {
      throw wrong("not UTF-8", field);
    }
    ((BytesColumn) field.target).set(row, where, (int) size);
  }

  private void nested(ProtobufField field, int row, long end, int depth) {
    if (field.wire == ProtobufField.GROUP) {
      ((StructColumn) field.target).set(row);
      message(field.parts, row, end, field.number, depth + 1);
      return;
    }
    long size = varint(end);
    long until = take(size, end) + size;
    at = until - size;
    if (field.kind == ProtobufField.Kind.TIMESTAMP) {
      timestamp(field, row, until);
      return;
    }
    if (field.target instanceof StructColumn struct) {
      struct.set(row);
    } else if (!field.target.isSet(row)) {
      zero(field.target, row);
    }
    message(field.parts, row, until, 0, depth + 1);
  }

  /** A wrapper without its field contains zero. */
  private static void zero(ValueColumn column, int row) {
    if (column instanceof FixedColumn fixed) {
      fixed.set(row, 0);
    } else if (column instanceof DecimalColumn decimals) {
      decimals.set(row, BigDecimal.ZERO);
    } else {
      ((BytesColumn) column).copy(row, new byte[0], 0);
    }
  }

  private void timestamp(ProtobufField field, int row, long end) {
    FixedColumn column = (FixedColumn) field.target;
    long before = column.isSet(row) ? column.getLong(row) : 0;
    long seconds = Math.floorDiv(before, 1_000_000L);
    long nanoseconds = Math.floorMod(before, 1_000_000L) * 1000;
    while (at < end) {
      long tag = varint(end);
      if (tag >>> 3 == 0) {
        throw wrong("a field has the number 0", field);
      } else if (tag == 8) {
        seconds = varint(end);
      } else if (tag == 16) {
        nanoseconds = (int) varint(end);
      } else {
        skip(tag, end, 1);
      }
    }
    if (seconds > SECONDS_MAX || seconds < -SECONDS_MAX) {
      throw wrong("a timestamp is outside the years 1 to 9999", field);
    }
    column.set(row, seconds * 1_000_000 + Math.floorDiv(nanoseconds, 1000L));
  }

  private void skip(long tag, long end, int depth) {
    switch ((int) tag & 7) {
      case ProtobufField.VARINT -> varint(end);
      case ProtobufField.EIGHT -> take(8, end);
      case ProtobufField.SIZED -> take(varint(end), end);
      case ProtobufField.FOUR -> take(4, end);
      case ProtobufField.GROUP -> message(new ProtobufField[0], 0, end, (int) (tag >>> 3), depth + 1);
      default -> throw wrong("an unknown wire type", null);
    }
  }
}
