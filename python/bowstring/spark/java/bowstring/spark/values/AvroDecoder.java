package bowstring.spark.values;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.HashMap;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/**
 * Decodes Avro's binary encoding (specification 1.12) into columns; the schema is the one with which the values were
 * written.
 */
final class AvroDecoder extends ValueDecoder {
  /** Most items without bytes in one value, because the value's size does not limit them. */
  private static final int EMPTY_ITEMS_MAX = 1 << 20;

  private static final int WRITERS_MAX = 10_000;

  /** The plan for values of a writer's schema, or the reason why they cannot be decoded. */
  private record Writer(AvroField plan, String fault) {}

  private final AvroField plan;
  private final Schema schema;
  private final AvroSchemas schemas;
  private final Map<SchemaKey, Writer> writers = new HashMap<>();
  private Writer writer;
  private SchemaKey writerKey;
  private long begin;
  private long at;
  private long end;
  private long emptyItems;
  private boolean filling;

  AvroDecoder(ValueFormat format, StructType shown, boolean checked) {
    super(format);
    schema = AvroTypes.parse(format.text());
    schemas = format.writers();
    plan = AvroField.of(schema, format.schema(), shown, checked, columns);
    root = (StructColumn) plan.column;
  }

  @Override
  protected void record(int row, long from, long to) {
    begin = from;
    at = from;
    end = to;
    emptyItems = 0;
    filling = false;
    value(schemas == null ? plan : written(), row);
    if (at < end) {
      throw wrong(plan, "bytes follow the value: it was written with another schema");
    }
  }

  /** The plan for the schema that the value names. */
  private AvroField written() {
    if (writer == null || schemaKey != writerKey) {
      if (writers.size() >= WRITERS_MAX) {
        writers.clear();
      }
      writer = writers.computeIfAbsent(schemaKey, this::look);
      writerKey = schemaKey;
    }
    if (writer.fault != null) {
      throw bad(schemaKey + ": " + writer.fault);
    }
    return writer.plan;
  }

  private Writer look(SchemaKey key) {
    try {
      Schema found = schemas.find(key);
      return found == null
          ? new Writer(null, "no schema has this id; check option value.schemas")
          : new Writer(AvroResolution.of(found, schema, plan), null);
    } catch (IllegalArgumentException unreadable) {
      return new Writer(null, unreadable.getMessage());
    }
  }

  private BadValueException wrong(AvroField field, String why) {
    return bad("at byte " + (at - begin) + ": " + why + (field.path.isEmpty() ? "" : " in " + field.path));
  }

  private void value(AvroField field, int row) {
    switch (field.kind) {
      case NULL -> {}
      case BOOLEAN -> truth(field, row);
      case INT, LONG -> integer(field, row);
      case FLOAT, DOUBLE -> real(field, row);
      case STRING, BYTES, FIXED -> bytes(field, row);
      case ENUM -> symbol(field, row);
      case UNION -> union(field, row);
      case RECORD -> struct(field, row);
      default -> items(field, row);
    }
  }

  private long number(AvroField field) {
    long total = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at >= end) {
        throw wrong(field, "the value is truncated");
      }
      long b = Platform.getByte(base, at++);
      total |= (b & 0x7f) << shift;
      if (b >= 0) {
        return (total >>> 1) ^ -(total & 1);
      }
    }
    throw wrong(field, "a number has more than ten bytes");
  }

  /** Takes {@code size} bytes and returns where they begin. */
  private long take(AvroField field, long size) {
    if (size < 0 || size > end - at) {
      throw wrong(field, "the value is truncated");
    }
    at += size;
    return at - size;
  }

  /** Stores a value in place, except a default, whose bytes are not in the batch. */
  private void put(BytesColumn column, int row, long where, int size) {
    if (!filling) {
      column.set(row, where, size);
      return;
    }
    byte[] copy = new byte[size];
    Platform.copyMemory(base, where, copy, Platform.BYTE_ARRAY_OFFSET, size);
    column.copy(row, copy, size);
  }

  /** Decodes the default of a field that the writer does not have. */
  private void fill(AvroField field, int row) {
    Object batch = base;
    long next = at;
    long until = end;
    base = field.fill;
    at = Platform.BYTE_ARRAY_OFFSET;
    end = at + field.fill.length;
    filling = true;
    try {
      value(field.parts[0], row);
    } finally {
      filling = false;
      base = batch;
      at = next;
      end = until;
    }
  }

  private void truth(AvroField field, int row) {
    int b = Platform.getByte(base, take(field, 1));
    if (b != 0 && b != 1) {
      throw wrong(field, "a boolean is neither 0 nor 1");
    }
    if (field.column != null) {
      ((FixedColumn) field.column).set(row, b);
    }
  }

  private void integer(AvroField field, int row) {
    long value = number(field);
    if (field.kind == Schema.Type.INT && value != (int) value) {
      throw wrong(field, "an int has more than 32 bits");
    }
    if (field.column != null) {
      if (field.factor != 1 && Math.abs(value) > Long.MAX_VALUE / field.factor) {
        throw wrong(field, "a timestamp is out of range");
      }
      ((FixedColumn) field.column).set(row, field.becomes == null ? value * field.factor
          : field.becomes == Schema.Type.FLOAT ? Float.floatToIntBits(value) : Double.doubleToLongBits(value));
    }
  }

  private void real(AvroField field, int row) {
    boolean single = field.kind == Schema.Type.FLOAT;
    long where = take(field, single ? 4 : 8);
    if (field.column != null) {
      ((FixedColumn) field.column).set(row, field.becomes != null
          ? Double.doubleToLongBits(Platform.getFloat(base, where))
          : single ? Platform.getInt(base, where) : Platform.getLong(base, where));
    }
  }

  private void bytes(AvroField field, int row) {
    long size = field.kind == Schema.Type.FIXED ? field.size : number(field);
    long where = take(field, size);
    boolean isText = field.kind == Schema.Type.STRING
        || field.column != null && field.column.dataType() instanceof StringType;
    if (isText && !Utf8.isValid(base, where, at)) {
      throw wrong(field, "not UTF-8");
    }
    if (field.column == null) {
      return;
    }
    if (field.scale < 0) {
      put((BytesColumn) field.column, row, where, (int) size);
      return;
    }
    if (size == 0 || size > 64) {
      throw wrong(field, "a decimal has " + size + " bytes instead of 1 to 64");
    }
    byte[] unscaled = new byte[(int) size];
    Platform.copyMemory(base, where, unscaled, Platform.BYTE_ARRAY_OFFSET, size);
    if (!JsonDecoder.setDecimal(field.column, row, new BigDecimal(new BigInteger(unscaled), field.scale))) {
      throw wrong(field, "a decimal has too many digits");
    }
  }

  private void symbol(AvroField field, int row) {
    long symbol = number(field);
    if (symbol < 0 || symbol >= field.symbols.length) {
      throw wrong(field, "the enum has no symbol of this number");
    }
    if (field.column != null) {
      byte[] name = field.symbols[(int) symbol];
      if (name == null) {
        throw wrong(field, "the schema of the columns has no such symbol and no default");
      }
      ((BytesColumn) field.column).copy(row, name, name.length);
    }
  }

  private void union(AvroField field, int row) {
    long branch = number(field);
    if (branch < 0 || branch >= field.parts.length) {
      throw wrong(field, "the union has no branch of this number");
    }
    AvroField part = field.parts[(int) branch];
    if (part.fault != null) {
      throw wrong(field, part.fault);
    }
    if (field.column != null && part.kind != Schema.Type.NULL) {
      ((StructColumn) field.column).set(row);
    }
    value(part, row);
  }

  private void struct(AvroField field, int row) {
    if (field.column != null) {
      ((StructColumn) field.column).set(row);
    }
    for (AvroField part : field.parts) {
      if (part.fill == null) {
        value(part, row);
      } else {
        fill(part, row);
      }
    }
  }

  /** Decodes an array or a map: blocks of items, the last one empty. */
  private void items(AvroField field, int row) {
    ListColumn column = (ListColumn) field.column;
    if (column != null) {
      column.begin(row);
    }
    for (long count = number(field); count != 0; count = number(field)) {
      if (count < 0) {
        long size = number(field);
        if (count == -count || size < 0 || size > end - at) {
          throw wrong(field, "a block exceeds the value");
        }
        if (column == null) {
          at += size;
          continue;
        }
        count = -count;
      }
      if (count > end - at) {
        emptyItems += Math.min(count, EMPTY_ITEMS_MAX + 1L);
        if (emptyItems > EMPTY_ITEMS_MAX) {
          throw wrong(field, "a block has more items than the value has bytes for");
        }
      }
      for (; count > 0; count--) {
        int item = column == null ? 0 : column.add(row);
        if (field.kind == Schema.Type.MAP) {
          key(field, column, item);
        }
        value(field.parts[0], item);
      }
    }
  }

  private void key(AvroField field, ListColumn column, int item) {
    long size = number(field);
    long where = take(field, size);
    if (!Utf8.isValid(base, where, at)) {
      throw wrong(field, "a key is not UTF-8");
    }
    if (column != null) {
      put((BytesColumn) column.keys, item, where, (int) size);
    }
  }
}
