package bowstring.spark.read;

import bowstring.spark.wire.TopicPartition;
import java.io.Serializable;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;

/**
 * The partitions to read: those of named topics, of topics whose whole name matches a pattern, or named partitions.
 * Exactly one of the three is not null.
 */
public record Subscription(List<String> topics, Pattern pattern, Set<TopicPartition> partitions)
    implements Serializable {

  /** Topics to request metadata for; null for all. */
  Set<String> topicsAsked() {
    if (pattern != null) {
      return null;
    }
    Set<String> names = new TreeSet<>();
    if (topics != null) {
      names.addAll(topics);
    } else {
      partitions.forEach(p -> names.add(p.topic()));
    }
    return names;
  }

  /** Whether all partitions belong to one topic. */
  boolean isOfOneTopic() {
    return pattern == null && topicsAsked().size() == 1;
  }

  @Override
  public String toString() {
    if (pattern != null) {
      return "SubscribePattern[" + pattern + "]";
    }
    return topics != null ? "Subscribe[" + String.join(", ", topics) + "]"
        : "Assign[" + partitions.toString().replaceAll("[\\[\\]]", "") + "]";
  }
}
