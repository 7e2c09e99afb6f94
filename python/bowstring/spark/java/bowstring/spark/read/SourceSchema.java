package bowstring.spark.read;

import bowstring.spark.decode.RecordVectors;
import bowstring.spark.values.ValueFormat;
import java.util.Map;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The columns of the source: those of Spark's Kafka source, with the value decoded if the options say so. */
public final class SourceSchema {
  private static final StructType PLAIN = new StructType()
      .add("key", DataTypes.BinaryType)
      .add("value", DataTypes.BinaryType)
      .add("topic", DataTypes.StringType)
      .add("partition", DataTypes.IntegerType)
      .add("offset", DataTypes.LongType)
      .add("timestamp", DataTypes.TimestampType)
      .add("timestampType", DataTypes.IntegerType);

  private static final StructType WITH_HEADERS = PLAIN.add("headers", RecordVectors.HEADERS_TYPE);

  private SourceSchema() {}

  /**
   * Returns the schema for the options.
   *
   * @throws IllegalArgumentException if value.format or value.schema are invalid
   */
  public static StructType of(Map<String, String> options) {
    boolean headers = options.entrySet().stream()
        .anyMatch(o -> o.getKey().equalsIgnoreCase("includeHeaders") && Boolean.parseBoolean(o.getValue()));
    StructType plain = headers ? WITH_HEADERS : PLAIN;
    ValueFormat format = ValueFormat.forOptions(options);
    return format == null ? plain : format.tableSchema(plain);
  }
}
