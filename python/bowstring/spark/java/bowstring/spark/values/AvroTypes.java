package bowstring.spark.values;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/** Maps Avro's types to Spark's, like spark-avro. */
final class AvroTypes {
  private static final int DECIMAL_DIGITS_MAX = 38;

  private AvroTypes() {}

  /** The schema in JSON. */
  static Schema parse(String text) {
    try {
      return new Schema.Parser().parse(text);
    } catch (RuntimeException e) {
      throw new IllegalArgumentException("option value.schema is not an Avro schema: " + e.getMessage(), e);
    }
  }

  /** The struct of a record. */
  static StructType struct(String text) {
    if (type(parse(text), new HashSet<>()) instanceof StructType struct) {
      return struct;
    }
    throw new IllegalArgumentException("option value.schema: the type of an Avro value must be a record");
  }

  /** Branches of a union that are not null; for another type, itself. */
  static List<Schema> members(Schema schema) {
    List<Schema> members = new ArrayList<>();
    for (Schema branch : schema.getType() == Schema.Type.UNION ? schema.getTypes() : List.of(schema)) {
      if (branch.getType() != Schema.Type.NULL) {
        members.add(branch);
      }
    }
    return members;
  }

  private static DataType type(Schema schema, Set<String> open) {
    return switch (schema.getType()) {
      case NULL -> DataTypes.NullType;
      case BOOLEAN -> DataTypes.BooleanType;
      case INT -> schema.getLogicalType() instanceof LogicalTypes.Date ? DataTypes.DateType : DataTypes.IntegerType;
      case LONG -> moment(schema.getLogicalType());
      case FLOAT -> DataTypes.FloatType;
      case DOUBLE -> DataTypes.DoubleType;
      case STRING, ENUM -> DataTypes.StringType;
      case BYTES, FIXED -> isDecimal(schema) ? decimal(schema) : DataTypes.BinaryType;
      case ARRAY -> new ArrayType(type(schema.getElementType(), open), true);
      case MAP -> new MapType(DataTypes.StringType, type(schema.getValueType(), open), true);
      case RECORD -> record(schema, open);
      case UNION -> union(schema, open);
    };
  }

  private static DataType moment(LogicalType logical) {
    if (logical instanceof LogicalTypes.TimestampMillis || logical instanceof LogicalTypes.TimestampMicros) {
      return DataTypes.TimestampType;
    }
    boolean local =
        logical instanceof LogicalTypes.LocalTimestampMillis || logical instanceof LogicalTypes.LocalTimestampMicros;
    return local ? DataTypes.TimestampNTZType : DataTypes.LongType;
  }

  /** Whether values are decimals that fit Spark's type. */
  static boolean isDecimal(Schema schema) {
    return schema.getLogicalType() instanceof LogicalTypes.Decimal decimal
        && decimal.getPrecision() <= DECIMAL_DIGITS_MAX;
  }

  private static DataType decimal(Schema schema) {
    LogicalTypes.Decimal decimal = (LogicalTypes.Decimal) schema.getLogicalType();
    return DataTypes.createDecimalType(decimal.getPrecision(), decimal.getScale());
  }

  private static DataType record(Schema schema, Set<String> open) {
    if (!open.add(schema.getFullName())) {
      throw new IllegalArgumentException(
          "option value.schema: " + schema.getFullName() + " contains itself, which columns cannot represent");
    }
    StructType struct = new StructType();
    for (Schema.Field field : schema.getFields()) {
      struct = struct.add(field.name(), type(field.schema(), open), true);
    }
    open.remove(schema.getFullName());
    return struct;
  }

  private static DataType union(Schema schema, Set<String> open) {
    List<Schema> members = members(schema);
    if (members.size() < 2) {
      return members.isEmpty() ? DataTypes.NullType : type(members.get(0), open);
    }
    StructType struct = new StructType();
    for (int i = 0; i < members.size(); i++) {
      struct = struct.add("member" + i, type(members.get(i), open), true);
    }
    return struct;
  }
}
