package bowstring.spark.write;

import bowstring.spark.audit.AuditOptions;
import bowstring.spark.wire.ClientOptions;
import java.io.Serializable;
import java.util.Locale;
import java.util.Map;

/**
 * The options of the sink: those of Spark's Kafka sink, with the names and meaning of Kafka's producer.
 *
 * <p>Batches are larger than the producer's by default (kafka.batch.size), because a task has its records at hand.
 * kafka.linger.ms applies only to streams, whose rows may come one by one; a batch job sends its open batches at its
 * end.
 */
final class SinkOptions implements Serializable {
  private static final long serialVersionUID = 1L;

  /** Size of a partition's batch by default. */
  static final int BATCH_BYTES = 256 << 10;

  /** Half of the largest size of a frame or a buffer. */
  private static final int LARGEST_REQUEST_BYTES = 1 << 30;

  /** transaction.max.timeout.ms of brokers by default: how long a driver may be away before it commits. */
  private static final int LONGEST_TRANSACTION_MS = 900_000;

  /** The topic of all rows, or null: each row has its own. */
  final String topic;

  final ClientOptions client;

  /** 0, 1 or -1 (all). */
  final short acks;

  final boolean idempotent;

  /** Whether tasks write in transactions, which the driver commits. */
  final boolean exactlyOnce;

  final int transactionTimeoutMs;
  final int batchBytes;
  final int maxRequestBytes;
  final long bufferBytes;
  final int maxInFlight;
  final long lingerMs;
  final int deliveryTimeoutMs;
  final int maxBlockMs;
  final long retries;
  final Compression compression;
  final int compressionLevel;

  /** How records are counted; null if they are not. */
  final AuditOptions audit;

  private SinkOptions(Map<String, String> options) {
    String named = null;
    boolean once = false;
    boolean asynchronous = false;
    for (Map.Entry<String, String> option : options.entrySet()) {
      String name = option.getKey().toLowerCase(Locale.ROOT);
      if (name.equals("topic")) {
        named = option.getValue().trim();
      }
      if (name.equals("delivery")) {
        once = isExactlyOnce(option.getValue().trim());
      }
      if (name.equals("asyncprogresstrackingenabled")) {
        asynchronous = option.getValue().trim().equalsIgnoreCase("true");
      }
      refuse(name);
    }
    topic = named;
    exactlyOnce = once;
    client = ClientOptions.of(options);
    acks = acksOf(client.get("acks"));
    maxInFlight = intOf("max.in.flight.requests.per.connection", 5, 1);
    lingerMs = client.getLong("linger.ms", 5, 0);
    retries = client.getLong("retries", Integer.MAX_VALUE, 0);
    idempotent = isIdempotent();
    transactionTimeoutMs = intOf("transaction.timeout.ms", LONGEST_TRANSACTION_MS, 1);
    if (exactlyOnce) {
      checkExactlyOnce(asynchronous);
    }
    maxRequestBytes = Math.min(intOf("max.request.size", 1 << 20, 0), LARGEST_REQUEST_BYTES);
    batchBytes = Math.min(intOf("batch.size", BATCH_BYTES, 0), Math.max(maxRequestBytes, 1));
    bufferBytes = client.getLong("buffer.memory", 32L << 20, 0);
    deliveryTimeoutMs = intOf("delivery.timeout.ms", 120_000, 0);
    maxBlockMs = intOf("max.block.ms", 60_000, 0);
    compression = Compression.of(client.get("compression.type"));
    compressionLevel = compression.level(client);
    audit = AuditOptions.of(options, "producer", client.clientId());
  }

  /**
   * Parses the options of a write.
   *
   * @throws IllegalArgumentException naming the option that is missing, wrong or contradicts another
   */
  static SinkOptions of(Map<String, String> options) {
    return new SinkOptions(options);
  }

  private static boolean isExactlyOnce(String delivery) {
    return switch (delivery.toLowerCase(Locale.ROOT)) {
      case "at-least-once" -> false;
      case "exactly-once" -> true;
      default -> throw new IllegalArgumentException(
          "option delivery is '" + delivery + "', it must be at-least-once or exactly-once");
    };
  }

  private void checkExactlyOnce(boolean asynchronous) {
    String contradicts = acks != -1 ? "kafka.acks" : retries == 0 ? "kafka.retries"
        : maxInFlight > 5 ? "kafka.max.in.flight.requests.per.connection"
        : !idempotent ? "kafka.enable.idempotence" : null;
    if (contradicts != null) {
      throw new IllegalArgumentException(
          "option " + contradicts + " contradicts delivery=exactly-once: leave it out");
    }
    if (asynchronous) {
      throw new IllegalArgumentException("option asyncProgressTrackingEnabled contradicts delivery=exactly-once: a "
          + "repeated batch could have other rows. Leave it out");
    }
  }

  private static void refuse(String name) {
    switch (name) {
      case "kafka.key.serializer" -> throw new IllegalArgumentException("Kafka option 'key.serializer' is not "
          + "supported as keys are written unchanged: cast the column 'key' to string or binary.");
      case "kafka.value.serializer" -> throw new IllegalArgumentException("Kafka option 'value.serializer' is not "
          + "supported as values are written unchanged: cast the column 'value' to string or binary.");
      case "kafka.partitioner.class" -> throw new IllegalArgumentException("Kafka option 'partitioner.class' is not "
          + "supported here: give the partition in a column 'partition'.");
      case "kafka.transactional.id" -> throw new IllegalArgumentException("Kafka option 'transactional.id' is not "
          + "supported: for exactly once, use the option delivery=exactly-once.");
      default -> { }
    }
  }

  private int intOf(String name, int defaultValue, int lowest) {
    return (int) Math.min(client.getLong(name, defaultValue, lowest), Integer.MAX_VALUE);
  }

  private static short acksOf(String text) {
    return switch (text == null ? "all" : text.trim()) {
      case "all", "-1" -> -1;
      case "1" -> 1;
      case "0" -> 0;
      default -> throw new IllegalArgumentException("Option 'kafka.acks' is '" + text + "': give 0, 1 or all");
    };
  }

  private boolean isIdempotent() {
    String asked = client.get("enable.idempotence");
    if (asked != null && !asked.equalsIgnoreCase("true") && !asked.equalsIgnoreCase("false")) {
      throw new IllegalArgumentException("Option 'kafka.enable.idempotence' is '" + asked + "': give true or false");
    }
    String conflict = acks != -1 ? "kafka.acks=all" : retries == 0 ? "kafka.retries of 1 or more"
        : maxInFlight > 5 ? "kafka.max.in.flight.requests.per.connection of at most 5" : null;
    if (conflict != null && "true".equalsIgnoreCase(asked)) {
      throw new IllegalArgumentException("kafka.enable.idempotence=true needs " + conflict);
    }
    return conflict == null && !"false".equalsIgnoreCase(asked);
  }
}
