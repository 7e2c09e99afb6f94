package bowstring.spark.values;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;

/**
 * Schema resolution (Avro's specification): a plan to read values of one schema into the columns of another. Fields are
 * matched by name or alias, numbers are promoted, and fields that only the reader has get their default, or null
 * without one.
 */
final class AvroResolution {
  private static final Map<Schema.Type, Set<Schema.Type>> PROMOTIONS = Map.of(
      Schema.Type.INT, Set.of(Schema.Type.LONG, Schema.Type.FLOAT, Schema.Type.DOUBLE),
      Schema.Type.LONG, Set.of(Schema.Type.FLOAT, Schema.Type.DOUBLE),
      Schema.Type.FLOAT, Set.of(Schema.Type.DOUBLE),
      Schema.Type.STRING, Set.of(Schema.Type.BYTES),
      Schema.Type.BYTES, Set.of(Schema.Type.STRING));

  private AvroResolution() {}

  /**
   * Returns the plan for values of {@code written}.
   *
   * @param plan of {@code read}
   * @throws IllegalArgumentException if the schemas do not match; the message says where
   */
  static AvroField of(Schema written, Schema read, AvroField plan) {
    return resolve(written, read, plan, "");
  }

  private static AvroField resolve(Schema written, Schema read, AvroField to, String path) {
    if (to.skipped) {
      return AvroField.over(written, path);
    }
    if (written.getType() == Schema.Type.UNION) {
      return union(written, read, to, path);
    }
    if (read.getType() == Schema.Type.UNION) {
      return member(written, read, to, path);
    }
    if (!matches(written, read)) {
      throw new IllegalArgumentException(unreadable(written, read, path));
    }
    return switch (written.getType()) {
      case RECORD -> record(written, read, to, path);
      case ARRAY -> AvroField.resolved(written, read, to.column, path,
          resolve(written.getElementType(), read.getElementType(), to.parts[0], path + "[]"));
      case MAP -> AvroField.resolved(written, read, to.column, path,
          resolve(written.getValueType(), read.getValueType(), to.parts[0], path + "{}"));
      default -> AvroField.resolved(written, read, to.column, path);
    };
  }

  private static String unreadable(Schema written, Schema read, String path) {
    return (path.isEmpty() ? "the value" : path) + " is written as " + written.getFullName() + " and cannot be read as "
        + (read.getType() == Schema.Type.UNION ? "one of " + read : read.getFullName());
  }

  private static AvroField union(Schema written, Schema read, AvroField to, String path) {
    boolean isChoice = AvroTypes.members(read).size() > 1;
    List<AvroField> parts = new ArrayList<>();
    for (Schema branch : written.getTypes()) {
      int place = read.getType() == Schema.Type.UNION ? place(branch, read) : 0;
      boolean readable = branch.getType() == Schema.Type.NULL
          || (read.getType() == Schema.Type.UNION ? place >= 0 : matches(branch, read));
      if (!readable) {
        parts.add(AvroField.wrong(branch, path, unreadable(branch, read, path)));
      } else if (branch.getType() == Schema.Type.NULL) {
        parts.add(AvroField.over(branch, path));
      } else if (read.getType() == Schema.Type.UNION) {
        parts.add(resolve(branch, read.getTypes().get(place), to.parts[place], path));
      } else {
        parts.add(resolve(branch, read, to, path));
      }
    }
    return AvroField.resolved(written, written, isChoice ? to.column : null, path, parts.toArray(AvroField[]::new));
  }

  /** A type that only the reader declares as a union. */
  private static AvroField member(Schema written, Schema read, AvroField to, String path) {
    if (written.getType() == Schema.Type.NULL) {
      return AvroField.over(written, path);
    }
    int place = place(written, read);
    if (place < 0) {
      throw new IllegalArgumentException(unreadable(written, read, path));
    }
    AvroField part = resolve(written, read.getTypes().get(place), to.parts[place], path);
    return AvroTypes.members(read).size() > 1 ? AvroField.around(read, to.column, part) : part;
  }

  /**
   * The reader's branch of the same type, or else the first to which the writer's type is promoted; -1 if there is
   * none.
   */
  private static int place(Schema written, Schema read) {
    List<Schema> branches = read.getTypes();
    for (int i = 0; i < branches.size(); i++) {
      if (branches.get(i).getType() == written.getType() && branches.get(i).getFullName().equals(written.getFullName())) {
        return i;
      }
    }
    for (int i = 0; i < branches.size(); i++) {
      if (matches(written, branches.get(i))) {
        return i;
      }
    }
    return -1;
  }

  private static boolean matches(Schema written, Schema read) {
    if (AvroTypes.isDecimal(written) || AvroTypes.isDecimal(read)) {
      return AvroTypes.isDecimal(written) && AvroTypes.isDecimal(read)
          && ((LogicalTypes.Decimal) written.getLogicalType()).getScale()
              == ((LogicalTypes.Decimal) read.getLogicalType()).getScale();
    }
    if (written.getType() != read.getType()) {
      return PROMOTIONS.getOrDefault(written.getType(), Set.of()).contains(read.getType());
    }
    if (written.getType() == Schema.Type.FIXED) {
      return written.getFixedSize() == read.getFixedSize();
    }
    boolean isTime = written.getType() == Schema.Type.INT || written.getType() == Schema.Type.LONG;
    return !isTime || written.getLogicalType() == null || read.getLogicalType() == null
        || written.getLogicalType().getName().equals(read.getLogicalType().getName());
  }

  /** The writer's fields in the order of the bytes, then the fields that only the reader has. */
  private static AvroField record(Schema written, Schema read, AvroField to, String path) {
    List<Schema.Field> mine = read.getFields();
    int[] taken = new int[mine.size()];
    Arrays.fill(taken, -1);
    for (int i = 0; i < taken.length; i++) {
      List<String> names = new ArrayList<>(List.of(mine.get(i).name()));
      names.addAll(mine.get(i).aliases());
      for (int j = 0; j < names.size() && taken[i] < 0; j++) {
        Schema.Field theirs = written.getField(names.get(j));
        taken[i] = theirs == null ? -1 : theirs.pos();
      }
    }
    List<AvroField> parts = new ArrayList<>();
    for (Schema.Field theirs : written.getFields()) {
      String below = path.isEmpty() ? theirs.name() : path + "." + theirs.name();
      int place = -1;
      for (int i = 0; i < taken.length; i++) {
        place = taken[i] == theirs.pos() ? i : place;
      }
      parts.add(place < 0
          ? AvroField.over(theirs.schema(), below)
          : resolve(theirs.schema(), mine.get(place).schema(), to.parts[place], below));
    }
    for (int i = 0; i < taken.length; i++) {
      if (taken[i] < 0 && !to.parts[i].skipped && mine.get(i).hasDefaultValue()) {
        parts.add(AvroField.filled(mine.get(i).schema(), to.parts[i], encoded(mine.get(i))));
      }
    }
    return AvroField.resolved(written, read, to.column, path, parts.toArray(AvroField[]::new));
  }

  private static byte[] encoded(Schema.Field field) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
    try {
      Object value = GenericData.get().getDefaultValue(field);
      new GenericDatumWriter<Object>(field.schema()).write(value, encoder);
      encoder.flush();
    } catch (IOException unheardOf) {
      throw new UncheckedIOException(unheardOf);
    }
    return out.toByteArray();
  }
}
