package bowstring.spark.read;

import bowstring.spark.wire.TopicPartition;
import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** The next offset of each partition, in the checkpoint format of Spark's Kafka source: {@code {"topic":{"0":23}}}. */
final class SourceOffset extends Offset {
  private final Map<TopicPartition, Long> offsets;

  SourceOffset(Map<TopicPartition, Long> offsets) {
    this.offsets = Collections.unmodifiableMap(new TreeMap<>(offsets));
  }

  static SourceOffset parse(String json) {
    return new SourceOffset(OffsetJson.offsets(json));
  }

  /** Spark may return an offset of its own class, with our JSON. */
  static Map<TopicPartition, Long> of(Offset offset) {
    return offset instanceof SourceOffset ours ? ours.offsets : parse(offset.json()).offsets;
  }

  @Override
  public String json() {
    return OffsetJson.write(offsets);
  }
}
