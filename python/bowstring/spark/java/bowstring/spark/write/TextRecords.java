package bowstring.spark.write;

import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/** Sends a few records of text outside of a task. */
public final class TextRecords {
  private static final RowLayout LAYOUT = new RowLayout(-1, 0, true, null, 1, true, null, -1, -1);

  private TextRecords() {}

  /**
   * Sends records to a topic and waits until they are acknowledged.
   *
   * @param connection options of a sink, {@code kafka.*}
   * @param records values by key
   */
  public static void send(Map<String, String> connection, String topic, Map<String, String> records)
      throws IOException {
    Map<String, String> given = new TreeMap<>(connection);
    given.put("topic", topic);
    try (RowWriter writer = new RowWriter(SinkOptions.of(given), LAYOUT, RowEncoding.BYTES, null, false)) {
      for (Map.Entry<String, String> each : records.entrySet()) {
        writer.write(new GenericInternalRow(
            new Object[] {UTF8String.fromString(each.getKey()), UTF8String.fromString(each.getValue())}));
      }
      writer.commit();
    }
  }
}
