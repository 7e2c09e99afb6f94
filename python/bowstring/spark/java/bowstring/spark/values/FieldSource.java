package bowstring.spark.values;

import java.math.BigDecimal;
import java.math.RoundingMode;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of a struct, or what is inside of one, read as the type that a schema has. Nothing is rounded or cut off.
 *
 * @param path of the field, for messages
 */
record FieldSource(DataType type, String path) {
  /** Reads a whole number. */
  @FunctionalInterface
  interface Whole {
    long of(SpecializedGetters in, int at);
  }

  /** Reads a number with a fraction. */
  @FunctionalInterface
  interface Real {
    double of(SpecializedGetters in, int at);
  }

  /** The exception for a column that has another type than the schema needs. */
  IllegalArgumentException unfit(String needed) {
    return new IllegalArgumentException("the field " + path + " is " + type.simpleString()
        + ", and the schema of the values needs " + needed);
  }

  /** A source of whole numbers from {@code least} to {@code most}. */
  Whole whole(long least, long most, String needed) {
    Whole number = number();
    if (number == null) {
      throw unfit(needed);
    }
    if (least == Long.MIN_VALUE && most == Long.MAX_VALUE) {
      return number;
    }
    return (in, at) -> {
      long value = number.of(in, at);
      if (value < least || value > most) {
        throw ValueEncoder.bad(path, value + " is out of the range of " + needed);
      }
      return value;
    };
  }

  private Whole number() {
    if (type instanceof LongType) {
      return SpecializedGetters::getLong;
    }
    if (type instanceof IntegerType) {
      return SpecializedGetters::getInt;
    }
    if (type instanceof ShortType) {
      return SpecializedGetters::getShort;
    }
    if (type instanceof ByteType) {
      return SpecializedGetters::getByte;
    }
    if (type instanceof DecimalType decimal && decimal.scale() == 0 && decimal.precision() <= 18) {
      return (in, at) -> in.getDecimal(at, decimal.precision(), 0).toUnscaledLong();
    }
    return null;
  }

  Real real(String needed) {
    if (type instanceof DoubleType) {
      return SpecializedGetters::getDouble;
    }
    if (type instanceof FloatType) {
      return SpecializedGetters::getFloat;
    }
    if (type instanceof DecimalType decimal) {
      return (in, at) -> in.getDecimal(at, decimal.precision(), decimal.scale()).toDouble();
    }
    Whole number = number();
    if (number == null) {
      throw unfit(needed);
    }
    return number::of;
  }

  void bool() {
    if (!(type instanceof BooleanType)) {
      throw unfit("a boolean");
    }
  }

  void string() {
    if (!(type instanceof StringType)) {
      throw unfit("a string");
    }
  }

  /** Whether bytes are those of a string. */
  boolean binary() {
    if (!(type instanceof BinaryType) && !(type instanceof StringType)) {
      throw unfit("binary");
    }
    return type instanceof StringType;
  }

  /** The bytes of a binary or string column. */
  static byte[] raw(SpecializedGetters in, int at, boolean isString) {
    if (!isString) {
      return in.getBinary(at);
    }
    UTF8String text = in.getUTF8String(at);
    return text.getBytes();
  }

  void date() {
    if (!(type instanceof DateType)) {
      throw unfit("a date");
    }
  }

  /** Microseconds since the epoch; or whole numbers, as which they are taken. */
  Whole moment() {
    if (type instanceof TimestampType || type instanceof TimestampNTZType) {
      return SpecializedGetters::getLong;
    }
    throw unfit("a timestamp");
  }

  /** Whether the column is an interval of days to seconds, which is microseconds. */
  boolean isInterval() {
    return type instanceof DayTimeIntervalType;
  }

  /** A decimal of a precision and scale. */
  java.util.function.BiFunction<SpecializedGetters, Integer, BigDecimal> decimal(int precision, int scale) {
    if (type instanceof DecimalType own) {
      return (in, at) -> fitted(in.getDecimal(at, own.precision(), own.scale()).toJavaBigDecimal(), precision, scale);
    }
    Whole number = number();
    if (number == null) {
      throw unfit("a decimal");
    }
    return (in, at) -> fitted(BigDecimal.valueOf(number.of(in, at)), precision, scale);
  }

  private BigDecimal fitted(BigDecimal value, int precision, int scale) {
    BigDecimal scaled;
    try {
      scaled = value.setScale(scale, RoundingMode.UNNECESSARY);
    } catch (ArithmeticException cut) {
      throw ValueEncoder.bad(path, value + " has more than " + scale + " digits behind the point");
    }
    if (scaled.precision() > precision) {
      throw ValueEncoder.bad(path, value + " has more than " + precision + " digits");
    }
    return scaled;
  }

  FieldSource element() {
    if (type instanceof ArrayType array) {
      return new FieldSource(array.elementType(), path + "[]");
    }
    throw unfit("an array");
  }

  FieldSource mapKey() {
    if (type instanceof MapType map) {
      return new FieldSource(map.keyType(), path + "{}");
    }
    throw unfit("a map");
  }

  FieldSource mapValue() {
    return new FieldSource(((MapType) type).valueType(), path + "{}");
  }

  /** Fields of the struct. */
  int fields() {
    if (type instanceof StructType struct) {
      return struct.length();
    }
    throw unfit("a struct");
  }

  /** The place of a field in the struct; -1 if it has none of this name. */
  int place(String name) {
    fields();
    return ValueColumns.place(type, name);
  }

  /** A field of the struct. */
  FieldSource field(int place, String name) {
    return new FieldSource(((StructType) type).fields()[place].dataType(), path.isEmpty() ? name : path + "." + name);
  }
}
