package bowstring.spark.audit;

import java.io.Serializable;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * How a source or sink counts its records, and where the counts go: the options {@code audit.*}, which are the settings
 * of Bowstring's clients.
 *
 * @param tier the cluster, or the stage of a pipeline
 * @param topic of the counts
 * @param windowMs length of a window
 * @param intervalMs time between reports
 * @param role producer or consumer
 * @param client its client id
 * @param group of a consumer; empty without one
 * @param connection options {@code kafka.*} of the client that sends the counts
 */
public record AuditOptions(String tier, String topic, long windowMs, long intervalMs, String role, String client,
    String group, TreeMap<String, String> connection) implements Serializable {
  private static final String PREFIX = "audit.";
  private static final String KAFKA = "kafka.";
  private static final String SERVERS = "kafka.bootstrap.servers";
  private static final int MAX_BLOCK_MS = 10_000;

  /** Settings of a producer that are not for the counts. */
  private static final Set<String> OTHERS = Set.of("acks", "batch.size", "buffer.memory", "compression.type",
      "delivery.timeout.ms", "enable.idempotence", "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection",
      "max.request.size", "retries", "transaction.timeout.ms", "group.id", "client.id");

  /**
   * Returns the settings among a source's or sink's options; null if there are none.
   *
   * @param role producer or consumer
   * @param client its client id
   * @throws IllegalArgumentException naming the option that is missing or wrong
   */
  public static AuditOptions of(Map<String, String> options, String role, String client) {
    TreeMap<String, String> given = new TreeMap<>();
    options.forEach((name, value) -> given.put(name.toLowerCase(Locale.ROOT), value.trim()));
    if (given.keySet().stream().noneMatch(name -> name.startsWith(PREFIX))) {
      return null;
    }
    String tier = given.getOrDefault("audit.tier", "");
    if (tier.isEmpty()) {
      throw new IllegalArgumentException(
          "audit.tier is missing: give the name of the cluster or stage that counts");
    }
    String topic = given.getOrDefault("audit.topic", "audit-counts");
    if (topic.isEmpty()) {
      throw new IllegalArgumentException("option audit.topic is empty, it must be a name");
    }
    String group = role.equals("consumer")
        ? given.getOrDefault("kafka.group.id", given.getOrDefault("groupidprefix", "")) : "";
    return new AuditOptions(tier, topic, milliseconds(given, "audit.window.ms", 600_000),
        milliseconds(given, "audit.report.interval.ms", 10_000), role, client, group, connection(given, client));
  }

  private static long milliseconds(Map<String, String> given, String name, long otherwise) {
    String text = given.get(name);
    if (text == null) {
      return otherwise;
    }
    try {
      long found = Long.parseLong(text);
      if (found > 0) {
        return found;
      }
    } catch (NumberFormatException notANumber) {
      // the message below shows the given text
    }
    throw new IllegalArgumentException(
        "option " + name + " is '" + text + "', it must be a number of milliseconds above 0");
  }

  private static TreeMap<String, String> connection(Map<String, String> given, String client) {
    TreeMap<String, String> found = new TreeMap<>();
    given.forEach((name, value) -> {
      if (name.startsWith(KAFKA) && !OTHERS.contains(name.substring(KAFKA.length()))) {
        found.put(name, value);
      }
    });
    found.put(SERVERS, given.getOrDefault("audit.bootstrap.servers", found.getOrDefault(SERVERS, "")));
    found.put("kafka.client.id", client + "-audit");
    found.put("kafka.max.block.ms", Integer.toString(MAX_BLOCK_MS));
    found.put("kafka.delivery.timeout.ms", Integer.toString(MAX_BLOCK_MS));
    return found;
  }

  /** Whether records of a topic count: those of counts and of the brokers' own topics do not. */
  boolean counts(String counted) {
    return !counted.equals(topic) && !counted.startsWith("__");
  }

  /** Without the connection, which has passwords. */
  @Override
  public String toString() {
    return "audit of " + tier + " into " + topic;
  }
}
