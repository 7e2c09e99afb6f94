package bowstring.spark.write;

import java.io.Serializable;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The columns of a row that are key, value, headers, topic and partition, as in Spark's Kafka sink. Others are left
 * out.
 *
 * @param topic ordinals of the columns; -1 for none
 * @param keyType of a key that is a struct, to be encoded; null for bytes
 * @param valueType of a value that is a struct, to be encoded; null for bytes
 */
record RowLayout(int topic, int key, boolean keyIsString, StructType keyType, int value, boolean valueIsString,
    StructType valueType, int headers, int partition) implements Serializable {
  private static final int NONE = -1;

  /**
   * Finds the columns.
   *
   * @param encodesKeys whether the key may be a struct
   * @param encodesValues whether the value may be a struct
   * @throws IllegalArgumentException naming the column that is missing or has a type that cannot be written
   */
  static RowLayout of(StructType schema, String topicOption, boolean encodesKeys, boolean encodesValues) {
    int value = ordinal(schema, "value");
    if (value == NONE) {
      throw new IllegalArgumentException("Required attribute 'value' not found: the columns are "
          + String.join(", ", schema.fieldNames()) + ". Rename one, or put several into one with to_json(struct(*)).");
    }
    int topic = ordinal(schema, "topic");
    if (topic == NONE && topicOption == null) {
      throw new IllegalArgumentException("topic option required when no 'topic' attribute is present. Use the topic "
          + "option for setting a topic.");
    }
    int key = ordinal(schema, "key");
    int headers = ordinal(schema, "headers");
    int partition = ordinal(schema, "partition");
    if (topicOption != null) {
      topic = NONE; // the option takes precedence, as in Spark's own sink
    }
    if (topic != NONE && !(type(schema, topic) instanceof StringType)) {
      throw wrongType(schema, topic, "STRING");
    }
    if (headers != NONE && !isHeaders(type(schema, headers))) {
      throw wrongType(schema, headers, "ARRAY<STRUCT<key: STRING, value: BINARY>>");
    }
    if (partition != NONE && !(type(schema, partition) instanceof IntegerType)) {
      throw wrongType(schema, partition, "INT");
    }
    StructType keyType = encodesKeys ? struct(schema, key) : null;
    StructType valueType = encodesValues ? struct(schema, value) : null;
    return new RowLayout(topic, key, keyType == null && isString(schema, key), keyType, value,
        valueType == null && isString(schema, value), valueType, headers, partition);
  }

  private static StructType struct(StructType schema, int ordinal) {
    return ordinal != NONE && type(schema, ordinal) instanceof StructType found ? found : null;
  }

  private static int ordinal(StructType schema, String name) {
    String[] names = schema.fieldNames();
    for (int i = 0; i < names.length; i++) {
      if (names[i].equalsIgnoreCase(name)) {
        return i;
      }
    }
    return NONE;
  }

  private static DataType type(StructType schema, int ordinal) {
    return schema.apply(ordinal).dataType();
  }

  private static boolean isString(StructType schema, int ordinal) {
    if (ordinal == NONE) {
      return false;
    }
    if (!(type(schema, ordinal) instanceof StringType) && !(type(schema, ordinal) instanceof BinaryType)) {
      throw wrongType(schema, ordinal, "STRING or BINARY");
    }
    return type(schema, ordinal) instanceof StringType;
  }

  private static boolean isHeaders(DataType type) {
    if (!(type instanceof ArrayType array) || !(array.elementType() instanceof StructType element)) {
      return false;
    }
    StructField[] fields = element.fields();
    return fields.length == 2 && fields[0].name().equals("key") && fields[0].dataType() instanceof StringType
        && fields[1].name().equals("value") && fields[1].dataType() instanceof BinaryType;
  }

  private static IllegalArgumentException wrongType(StructType schema, int ordinal, String wanted) {
    StructField field = schema.apply(ordinal);
    return new IllegalArgumentException(field.name() + " attribute unsupported type " + field.dataType().sql() + ". "
        + field.name() + " must be a(n) " + wanted + ".");
  }
}
