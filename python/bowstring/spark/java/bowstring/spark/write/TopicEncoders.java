package bowstring.spark.write;

import bowstring.spark.values.RegistryWriting;
import bowstring.spark.values.ValueEncoder;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/** Encodes the structs of one column in one task. */
final class TopicEncoders {
  private final RegistryWriting writing;
  private final UTF8String header;
  private final int ordinal;
  private final int fields;
  private final Map<UTF8String, ValueEncoder> byTopic = new HashMap<>();

  /**
   * Encoders of a column.
   *
   * @param ordinal of the column
   * @param fields of its structs
   */
  TopicEncoders(RegistryWriting writing, int ordinal, int fields) {
    this.writing = writing;
    this.header = UTF8String.fromString(writing.header());
    this.ordinal = ordinal;
    this.fields = fields;
  }

  /**
   * Encodes the column of a row; null if it is null. The bytes are valid until the next call for the topic.
   *
   * @param record gets the header that names the schema, if there is one
   */
  ValueEncoder encode(InternalRow row, UTF8String topic, RowRecord record) {
    if (row.isNullAt(ordinal)) {
      return null;
    }
    ValueEncoder encoder = byTopic.computeIfAbsent(topic, name -> writing.encoder(name.toString()));
    encoder.encode(row.getStruct(ordinal, fields));
    if (encoder.header() != null) {
      record.addHeader(header, encoder.header());
    }
    return encoder;
  }
}
