package bowstring.spark.wire;

import java.io.Serializable;

/** A partition of a topic; ordered by topic, then number. Printed as in Kafka: {@code topic-0}. */
public record TopicPartition(String topic, int partition) implements Serializable, Comparable<TopicPartition> {
  @Override
  public int compareTo(TopicPartition other) {
    int byTopic = topic.compareTo(other.topic);
    return byTopic != 0 ? byTopic : Integer.compare(partition, other.partition);
  }

  @Override
  public String toString() {
    return topic + "-" + partition;
  }
}
