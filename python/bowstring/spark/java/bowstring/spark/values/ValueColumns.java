package bowstring.spark.values;

import java.util.ArrayList;
import java.util.List;
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
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** Creates the columns of a value's type, and keeps those that point into the received bytes. */
final class ValueColumns {
  private final List<BytesColumn> bytes = new ArrayList<>();

  /** Keeps a column of strings or binaries, so that {@link #attach} reaches it. */
  BytesColumn keep(BytesColumn column) {
    bytes.add(column);
    return column;
  }

  /** Sets the memory of the next batch's values. */
  void attach(Object base, long origin) {
    bytes.forEach(column -> column.attach(base, origin));
  }

  /** Creates a column of a type without parts; {@code zeroed}: a missing value is the type's zero. */
  ValueColumn leaf(DataType type, boolean zeroed) {
    if (type instanceof StringType || type instanceof BinaryType || type instanceof NullType) {
      return keep(new BytesColumn(type, zeroed));
    }
    if (type instanceof DecimalType decimal && decimal.precision() > 18) {
      return new DecimalColumn(type, zeroed);
    }
    if (isFixed(type)) {
      return new FixedColumn(type, zeroed);
    }
    throw new IllegalArgumentException("values of the type " + type.simpleString() + " cannot be decoded");
  }

  static boolean isFixed(DataType type) {
    return type instanceof BooleanType
        || type instanceof ByteType
        || type instanceof ShortType
        || type instanceof IntegerType
        || type instanceof LongType
        || type instanceof FloatType
        || type instanceof DoubleType
        || type instanceof DateType
        || type instanceof TimestampType
        || type instanceof TimestampNTZType
        || type instanceof DecimalType;
  }

  /** The part of {@code shown} (null: nothing, or everything inside) for the array element or map value. */
  static DataType element(DataType shown) {
    if (shown instanceof ArrayType array) {
      return array.elementType();
    }
    return shown instanceof MapType map ? map.valueType() : null;
  }

  /** The index of a field among the shown ones, -1 if it is not shown. */
  static int place(DataType shown, String field) {
    return shown instanceof StructType struct && struct.getFieldIndex(field).isDefined()
        ? (Integer) struct.getFieldIndex(field).get()
        : -1;
  }
}
