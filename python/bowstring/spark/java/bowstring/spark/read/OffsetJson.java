package bowstring.spark.read;

import bowstring.spark.wire.TopicPartition;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/** The JSON of Spark's Kafka source: partitions, offsets and timestamps by topic and partition. */
final class OffsetJson {
  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static final String OFFSETS_EXAMPLE = "{\"topicA\":{\"0\":23,\"1\":-1},\"topicB\":{\"0\":-2}}";
  private static final String TIMESTAMPS_EXAMPLE = "{\"topicA\": {\"0\": 123456789, \"1\": 123456789}, "
      + "\"topicB\": {\"0\": 123456789, \"1\": 123456789}}";
  private static final String PARTITIONS_EXAMPLE = "{\"topicA\":[0,1],\"topicB\":[0,1]}";

  private OffsetJson() {}

  /** Partitions by topic: the option assign. */
  static Set<TopicPartition> partitions(String json) {
    Set<TopicPartition> result = new TreeSet<>();
    JsonNode root = object(json, PARTITIONS_EXAMPLE);
    for (Map.Entry<String, JsonNode> topic : root.properties()) {
      if (!topic.getValue().isArray()) {
        throw wrong(json, PARTITIONS_EXAMPLE);
      }
      for (JsonNode partition : topic.getValue()) {
        if (!partition.isInt() || partition.intValue() < 0) {
          throw wrong(json, PARTITIONS_EXAMPLE);
        }
        result.add(new TopicPartition(topic.getKey(), partition.intValue()));
      }
    }
    return result;
  }

  /** Offsets by topic and partition: of options, and of checkpoints. */
  static TreeMap<TopicPartition, Long> offsets(String json) {
    return numbers(json, OFFSETS_EXAMPLE);
  }

  /** Milliseconds since 1970 by topic and partition. */
  static TreeMap<TopicPartition, Long> timestamps(String json) {
    return numbers(json, TIMESTAMPS_EXAMPLE);
  }

  private static TreeMap<TopicPartition, Long> numbers(String json, String example) {
    TreeMap<TopicPartition, Long> result = new TreeMap<>();
    for (Map.Entry<String, JsonNode> topic : object(json, example).properties()) {
      if (!topic.getValue().isObject()) {
        throw wrong(json, example);
      }
      for (Map.Entry<String, JsonNode> entry : topic.getValue().properties()) {
        if (!entry.getValue().isIntegralNumber() || !entry.getValue().canConvertToLong()) {
          throw wrong(json, example);
        }
        try {
          int partition = Integer.parseInt(entry.getKey());
          result.put(new TopicPartition(topic.getKey(), partition), entry.getValue().longValue());
        } catch (NumberFormatException notAPartition) {
          throw wrong(json, example);
        }
      }
    }
    return result;
  }

  private static JsonNode object(String json, String example) {
    try {
      JsonNode root = MAPPER.readTree(json);
      if (root != null && root.isObject()) {
        return root;
      }
    } catch (JsonProcessingException notJson) {
      // the message below shows the given text
    }
    throw wrong(json, example);
  }

  private static IllegalArgumentException wrong(String json, String example) {
    return new IllegalArgumentException("Expected e.g. " + example + ", got " + json);
  }

  /** Returns offsets as JSON, topics and partitions in order, without white space, like Spark's Kafka source. */
  static String write(Map<TopicPartition, Long> offsets) {
    Map<String, Map<String, Long>> byTopic = new TreeMap<>();
    Map<String, Map<Integer, Long>> numbered = new TreeMap<>();
    offsets.forEach((p, offset) -> numbered.computeIfAbsent(p.topic(), t -> new TreeMap<>()).put(p.partition(), offset));
    numbered.forEach((topic, partitions) -> {
      Map<String, Long> named = new java.util.LinkedHashMap<>();
      partitions.forEach((partition, offset) -> named.put(Integer.toString(partition), offset));
      byTopic.put(topic, named);
    });
    try {
      return MAPPER.writeValueAsString(byTopic);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
