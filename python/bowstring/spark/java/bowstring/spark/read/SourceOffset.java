package bowstring.spark.read;

import bowstring.spark.wire.TopicPartition;
import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** The next offset of each partition, in a checkpoint as Spark's Kafka source has it: {@code {"topic":{"0":23}}}. */
final class SourceOffset extends Offset {
  private final Map<TopicPartition, Long> offsets;

  SourceOffset(Map<TopicPartition, Long> offsets) {
    this.offsets = Collections.unmodifiableMap(new TreeMap<>(offsets));
  }

  static SourceOffset parse(String json) {
    return new SourceOffset(OffsetJson.offsets(json));
  }

  /** Spark may hand back an offset of its own making, with the JSON of one of ours. */
  static Map<TopicPartition, Long> of(Offset offset) {
    return offset instanceof SourceOffset ours ? ours.offsets : parse(offset.json()).offsets;
  }

  @Override
  public String json() {
    return OffsetJson.write(offsets);
  }
}
