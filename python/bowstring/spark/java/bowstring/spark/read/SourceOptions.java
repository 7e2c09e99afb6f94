package bowstring.spark.read;

import bowstring.spark.audit.AuditOptions;
import bowstring.spark.values.ValueFormat;
import bowstring.spark.wire.ClientOptions;
import bowstring.spark.wire.TopicPartition;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import java.util.stream.Stream;
import org.apache.spark.SparkEnv;
import org.apache.spark.network.util.JavaUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The options of the source: names, meaning and defaults of Spark's Kafka source, and {@code local}.
 *
 * <p>Every error is an IllegalArgumentException when the query is built, not in a task.
 */
public final class SourceOptions {
  private static final Logger LOG = LoggerFactory.getLogger(SourceOptions.class);
  private static final List<String> STRATEGIES = List.of("assign", "subscribepattern", "subscribe");
  private static final String STRATEGY_NAMES = "subscribe, subscribePattern, assign";
  private static final String SEE = ". See the documentation of Spark's Kafka source.";

  private final TreeMap<String, String> options = new TreeMap<>();
  private final Subscription subscription;
  private final ClientOptions client;
  private final ValueFormat valueFormat;
  private final AuditOptions audit;

  /**
   * Checks what batch and streaming queries have in common.
   *
   * @param given names in upper or lower case
   */
  public SourceOptions(Map<String, String> given) {
    given.forEach((name, value) -> options.put(name.toLowerCase(Locale.ROOT), value));
    subscription = readSubscription();
    refuseConsumerOptions();
    client = ClientOptions.of(options);
    valueFormat = ValueFormat.forOptions(options);
    audit = AuditOptions.of(options, "consumer", client.clientId());
    minPartitions(); // each option is read once here, so that a mistake is reported before any request to a broker
    maxRecordsPerPartition();
    localMode();
    failOnDataLoss();
    includeHeaders();
    pushDownAggregate();
    pollTimeoutMs();
    fetchOffsetRetries();
    fetchOffsetRetryIntervalMs();
    Long least = minOffsetsPerTrigger();
    Long most = maxOffsetsPerTrigger();
    if (least != null && most != null && least > most) {
      throw new IllegalArgumentException("The value of minOffsetPerTrigger(" + least + ") is higher than the "
          + "maxOffsetsPerTrigger(" + most + ").");
    }
  }

  /** Checks options of batch queries. */
  public SourceOptions forBatch() {
    OffsetLimit start = startingOffsets(new OffsetLimit.Earliest());
    if (start instanceof OffsetLimit.Latest) {
      throw new IllegalArgumentException("starting offset can't be latest for batch queries on Kafka");
    }
    OffsetLimit end = endingOffsets();
    if (end instanceof OffsetLimit.Earliest) {
      throw new IllegalArgumentException("ending offset can't be earliest for batch queries on Kafka");
    }
    refuse(start, OffsetLimit.LATEST, "startingOffsets for %s can't be latest for batch queries on Kafka");
    refuse(end, OffsetLimit.EARLIEST, "ending offset for %s can't be earliest for batch queries on Kafka");
    compare(start, end);
    for (String ignored : List.of("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")) {
      if (options.containsKey(ignored.toLowerCase(Locale.ROOT))) {
        LOG.warn("{} option ignored in batch queries", ignored);
      }
    }
    return this;
  }

  /** Checks options of streaming queries. */
  public SourceOptions forStream() {
    if (options.containsKey("endingoffsets")) {
      throw new IllegalArgumentException("ending offset not valid in streaming queries");
    }
    if (options.containsKey("endingoffsetsbytimestamp") || options.containsKey("endingtimestamp")) {
      throw new IllegalArgumentException("ending timestamp not valid in streaming queries");
    }
    startingOffsets(new OffsetLimit.Latest());
    maxTriggerDelayMs();
    return this;
  }

  private static void refuse(OffsetLimit limit, long offset, String message) {
    if (limit instanceof OffsetLimit.Offsets given) {
      given.offsets().forEach((partition, at) -> {
        if (at == offset) {
          throw new IllegalArgumentException(String.format(message, partition));
        }
      });
    }
  }

  private static void compare(OffsetLimit start, OffsetLimit end) {
    if (start instanceof OffsetLimit.Offsets from && end instanceof OffsetLimit.Offsets to) {
      compare(from.offsets(), to.offsets(), "offset");
    } else if (start instanceof OffsetLimit.Timestamps from && end instanceof OffsetLimit.Timestamps to) {
      compare(from.timestamps(), to.timestamps(), "timestamp");
    }
  }

  private static void compare(Map<TopicPartition, Long> from, Map<TopicPartition, Long> to, String what) {
    if (!from.keySet().equals(to.keySet())) {
      throw new IllegalArgumentException("The topic partitions of the start " + from.keySet()
          + " are not those of the end " + to.keySet());
    }
    from.forEach((partition, at) -> {
      if (at > to.get(partition) && at >= 0 && to.get(partition) >= 0) {
        throw new IllegalArgumentException("The start " + what + " " + at + " of " + partition
            + " is greater than its end " + what + " " + to.get(partition));
      }
    });
  }

  private Subscription readSubscription() {
    List<String> given = STRATEGIES.stream().filter(options::containsKey).toList();
    if (given.isEmpty()) {
      throw new IllegalArgumentException("One of the following options must be specified for Kafka source: "
          + STRATEGY_NAMES + SEE);
    }
    if (given.size() > 1) {
      throw new IllegalArgumentException("Only one of the following options can be specified for Kafka source: "
          + STRATEGY_NAMES + SEE);
    }
    String value = options.get(given.get(0));
    switch (given.get(0)) {
      case "assign":
        if (!value.trim().startsWith("{")) {
          throw new IllegalArgumentException(
              "No topicpartitions to assign as specified value for option 'assign' is '" + value + "'");
        }
        return new Subscription(null, null, Set.copyOf(OffsetJson.partitions(value)));
      case "subscribe":
        List<String> topics = Stream.of(value.split(",")).map(String::trim).filter(t -> !t.isEmpty()).toList();
        if (topics.isEmpty()) {
          throw new IllegalArgumentException(
              "No topics to subscribe to as specified value for option 'subscribe' is '" + value + "'");
        }
        return new Subscription(topics, null, null);
      default:
        return new Subscription(null, pattern(value.trim()), null);
    }
  }

  private static Pattern pattern(String text) {
    if (text.isEmpty()) {
      throw new IllegalArgumentException(
          "Pattern to subscribe is empty as specified value for option 'subscribePattern' is '" + text + "'");
    }
    try {
      return Pattern.compile(text);
    } catch (PatternSyntaxException wrong) {
      throw new IllegalArgumentException("Option 'subscribePattern' is not a regular expression: " + wrong.getMessage());
    }
  }

  private void refuseConsumerOptions() {
    if (options.containsKey("kafka.group.id")) {
      LOG.warn("Option 'kafka.group.id' only names this query to brokers: the source joins no consumer group and commits "
          + "no offsets");
    }
    Map<String, String> refused = new HashMap<>();
    refused.put("auto.offset.reset", ": set the source option 'startingOffsets' to 'earliest' or 'latest' instead. It "
        + "applies when a new query starts; resuming always picks up where the query left off");
    refused.put("key.deserializer", " as keys are byte arrays: use DataFrame operations to deserialize them");
    refused.put("value.deserializer", " as values are byte arrays: use value.format, or DataFrame operations");
    refused.put("enable.auto.commit", ": Spark's checkpoint keeps the offsets");
    refused.put("interceptor.classes", ": interceptors could change what is read");
    refused.forEach((name, why) -> {
      if (options.containsKey("kafka." + name)) {
        throw new IllegalArgumentException("Kafka option '" + name + "' is not supported" + why);
      }
    });
  }

  OffsetLimit startingOffsets(OffsetLimit otherwise) {
    return limit("starting", otherwise);
  }

  OffsetLimit endingOffsets() {
    return limit("ending", new OffsetLimit.Latest());
  }

  private OffsetLimit limit(String which, OffsetLimit otherwise) {
    String strategy = options.getOrDefault("startingoffsetsbytimestampstrategy", "error").toLowerCase(Locale.ROOT);
    if (!strategy.equals("error") && !strategy.equals("latest")) {
      throw new IllegalArgumentException(
          "Option 'startingOffsetsByTimestampStrategy' is '" + strategy + "': give error or latest");
    }
    boolean latestIfNone = which.equals("ending") || strategy.equals("latest");
    String timestamp = options.get(which + "timestamp");
    if (timestamp != null) {
      try {
        long at = Long.parseLong(timestamp.trim());
        mustBeKnown(which + "Timestamp", at, "");
        return new OffsetLimit.Timestamp(at, latestIfNone);
      } catch (NumberFormatException notANumber) {
        throw new IllegalArgumentException("Expected a single long value, got " + timestamp);
      }
    }
    String byTimestamp = options.get(which + "offsetsbytimestamp");
    if (byTimestamp != null) {
      Map<TopicPartition, Long> given = OffsetJson.timestamps(byTimestamp.trim());
      given.forEach((partition, at) -> mustBeKnown(which + "OffsetsByTimestamp", at, " for " + partition));
      return new OffsetLimit.Timestamps(given, latestIfNone);
    }
    String offsets = options.get(which + "offsets");
    if (offsets == null) {
      return otherwise;
    }
    return switch (offsets.trim().toLowerCase(Locale.ROOT)) {
      case "earliest" -> new OffsetLimit.Earliest();
      case "latest" -> new OffsetLimit.Latest();
      default -> {
        Map<TopicPartition, Long> given = OffsetJson.offsets(offsets.trim());
        given.forEach((partition, at) -> mustBeKnown(which + "Offsets", at, " for " + partition));
        yield new OffsetLimit.Offsets(given);
      }
    };
  }

  /** Brokers give other negative numbers meanings of their own. */
  private static void mustBeKnown(String option, long number, String where) {
    if (number < OffsetLimit.EARLIEST) {
      throw new IllegalArgumentException("Option '" + option + "' is " + number + where + ": numbers below 0 are only "
          + "-2, the earliest offset, and -1, the latest");
    }
  }

  Map<String, String> asMap() {
    return options;
  }

  Subscription subscription() {
    return subscription;
  }

  ClientOptions client() {
    return client;
  }

  ValueFormat valueFormat() {
    return valueFormat;
  }

  /** How records are counted; null if they are not. */
  AuditOptions audit() {
    return audit;
  }

  boolean failOnDataLoss() {
    return bool("failOnDataLoss", true);
  }

  boolean includeHeaders() {
    return bool("includeHeaders", false);
  }

  /** Same name as in Spark's JDBC source. */
  boolean pushDownAggregate() {
    return bool("pushDownAggregate", true);
  }

  private boolean bool(String name, boolean otherwise) {
    String text = options.get(name.toLowerCase(Locale.ROOT));
    if (text == null || text.equalsIgnoreCase("true") || text.equalsIgnoreCase("false")) {
      return text == null ? otherwise : Boolean.parseBoolean(text);
    }
    throw new IllegalArgumentException("Option '" + name + "' is '" + text + "': give true or false");
  }

  private Long number(String name, long least) {
    String text = options.get(name.toLowerCase(Locale.ROOT));
    if (text == null) {
      return null;
    }
    long value;
    try {
      value = Long.parseLong(text.trim());
    } catch (NumberFormatException notANumber) {
      throw new IllegalArgumentException("Option '" + name + "' is '" + text + "': give a whole number");
    }
    if (value < least) {
      throw new IllegalArgumentException(name + (least == 1 ? " must be positive" : " must be at least " + least));
    }
    return value;
  }

  Long minPartitions() {
    return number("minPartitions", 1);
  }

  Long maxRecordsPerPartition() {
    return number("maxRecordsPerPartition", 1);
  }

  Long maxOffsetsPerTrigger() {
    return number("maxOffsetsPerTrigger", 0);
  }

  Long minOffsetsPerTrigger() {
    return number("minOffsetsPerTrigger", 0);
  }

  long maxTriggerDelayMs() {
    return JavaUtils.timeStringAsMs(options.getOrDefault("maxtriggerdelay", "15m"));
  }

  int fetchOffsetRetries() {
    Long retries = number("fetchOffset.numRetries", 1);
    return retries == null ? 3 : (int) Math.min(retries, Integer.MAX_VALUE);
  }

  long fetchOffsetRetryIntervalMs() {
    Long interval = number("fetchOffset.retryIntervalMs", 0);
    return interval == null ? 1000 : interval;
  }

  int pollTimeoutMs() {
    Long timeout = number("kafkaConsumer.pollTimeoutMs", 0);
    if (timeout == null) {
      String network = SparkEnv.get() == null ? "120s" : SparkEnv.get().conf().get("spark.network.timeout", "120s");
      timeout = JavaUtils.timeStringAsSec(network) * 1000;
    }
    return (int) Math.min(timeout, Integer.MAX_VALUE);
  }

  ReadSettings.LocalMode localMode() {
    String mode = options.getOrDefault("local", "false").toUpperCase(Locale.ROOT);
    try {
      return ReadSettings.LocalMode.valueOf(mode);
    } catch (IllegalArgumentException unknown) {
      throw new IllegalArgumentException("Option 'local' is '" + mode + "': give true, false or auto");
    }
  }
}
