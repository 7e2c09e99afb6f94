package bowstring.spark.wire;

import java.io.Serializable;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The {@code kafka.*} options of a source or sink: the names and defaults of Kafka's clients.
 *
 * <p>Options of Kafka's clients that have no effect here (group membership, interceptors and the like) are accepted
 * silently; unknown names are accepted with one warning, but refused if they are of TLS or SASL.
 */
public final class ClientOptions implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final Logger LOG = LoggerFactory.getLogger(ClientOptions.class);
  private static final String PREFIX = "kafka.";
  private static final String GROUP_PREFIX = "groupidprefix";

  private static final Set<String> USED = Set.of("bootstrap.servers", "client.id",
      "request.timeout.ms", "default.api.timeout.ms", "retry.backoff.ms", "retry.backoff.max.ms",
      "socket.connection.setup.timeout.ms", "connections.max.idle.ms", "isolation.level", "check.crcs",
      "fetch.min.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes", "max.decompressed.batch.bytes",
      "receive.buffer.bytes", "send.buffer.bytes", "client.rack");

  /** Settings of Kafka's consumers and producers that this client does not use, or that another part of it reads. */
  private static final Set<String> KNOWN = Set.of("group.id", "group.instance.id", "session.timeout.ms",
      "heartbeat.interval.ms", "max.poll.records", "max.poll.interval.ms", "metadata.max.age.ms",
      "metadata.recovery.strategy", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "fetch.max.bytes",
      "client.dns.lookup", "allow.auto.create.topics", "exclude.internal.topics",
      "socket.connection.setup.timeout.max.ms", "partition.assignment.strategy", "group.protocol",
      "enable.metrics.push", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
      "metrics.sample.window.ms", "auto.include.jmx.reporter", "acks", "batch.size", "buffer.memory",
      "compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level",
      "delivery.timeout.ms", "enable.idempotence", "linger.ms", "max.block.ms",
      "max.in.flight.requests.per.connection", "max.request.size", "metadata.max.idle.ms", "retries",
      "partitioner.class", "partitioner.ignore.keys", "partitioner.adaptive.partitioning.enable",
      "partitioner.availability.timeout.ms", "transactional.id", "transaction.timeout.ms");

  private static final Set<String> WARNED = ConcurrentHashMap.newKeySet();

  private final TreeMap<String, String> values = new TreeMap<>();
  private final List<HostPort> bootstrap;
  private final ClientSecurity security;

  private ClientOptions(Map<String, String> options) {
    for (Map.Entry<String, String> option : options.entrySet()) {
      String name = option.getKey().toLowerCase(Locale.ROOT);
      if (name.startsWith(PREFIX)) {
        values.put(name.substring(PREFIX.length()), option.getValue());
      }
    }
    if (options.get(GROUP_PREFIX) != null) {
      values.putIfAbsent("group.id", options.get(GROUP_PREFIX)); // as in Spark's source, which does not require the prefix here
    }
    String servers = values.get("bootstrap.servers");
    if (servers == null) {
      throw new IllegalArgumentException("Option 'kafka.bootstrap.servers' must be specified: host:port of a broker");
    }
    bootstrap = HostPort.parseList(servers);
    security = ClientSecurity.of(values);
    values.keySet().removeIf(ClientSecurity::isName);
    warnAboutUnknown();
    isReadCommitted(); // values are read once here, so that a mistake is reported on the driver
    requestTimeoutMs();
    maxPartitionFetchBytes();
    maxDecompressedBatchBytes();
    fetchMinBytes();
    fetchMaxWaitMs();
  }

  /**
   * Returns the client options among a source's or sink's options.
   *
   * @param options names in lower case
   * @throws IllegalArgumentException naming the option that is missing or wrong
   */
  public static ClientOptions of(Map<String, String> options) {
    return new ClientOptions(options);
  }

  private void warnAboutUnknown() {
    Set<String> unknown = new HashSet<>(values.keySet());
    unknown.removeAll(USED);
    unknown.removeAll(KNOWN);
    for (String name : unknown) {
      if (WARNED.add(name)) {
        LOG.warn("Option 'kafka.{}' is unknown and has no effect; check its name", name);
      }
    }
  }

  /** Whether Kafka's clients have a setting of this name, without the prefix. */
  public static boolean isKnown(String name) {
    return USED.contains(name) || KNOWN.contains(name) || ClientSecurity.isName(name);
  }

  /** Where this client is, so that a leader may name a nearer replica (KIP-392); empty if nothing is said. */
  public String rack() {
    return values.getOrDefault("client.rack", "");
  }

  /** TLS and SASL. */
  public ClientSecurity security() {
    return security;
  }

  /** The bootstrap servers. */
  public List<HostPort> bootstrapServers() {
    return bootstrap;
  }

  /** Any {@code kafka.} option by its Kafka name, or null. */
  public String get(String name) {
    return values.get(name);
  }

  /** A whole number from an option. */
  public long getLong(String name, long defaultValue, long lowest) {
    String text = values.get(name);
    if (text == null) {
      return defaultValue;
    }
    try {
      long value = Long.parseLong(text.trim());
      if (value >= lowest) {
        return value;
      }
    } catch (NumberFormatException notANumber) {
      // the message below shows the given text
    }
    throw new IllegalArgumentException(
        "Option 'kafka." + name + "' is '" + text + "': give a whole number, at least " + lowest);
  }

  private int getInt(String name, int defaultValue, int lowest) {
    return (int) Math.min(getLong(name, defaultValue, lowest), Integer.MAX_VALUE);
  }

  /**
   * The name of this query in the brokers' logs, quotas and metrics: {@code kafka.client.id}, else {@code
   * kafka.group.id} or {@code groupIdPrefix}. Brokers see nothing else of Kafka's consumers in Spark's source either,
   * because these do not join their group.
   */
  public String clientId() {
    return values.getOrDefault("client.id", values.getOrDefault("group.id", "bowstring-spark"));
  }

  public int requestTimeoutMs() {
    return getInt("request.timeout.ms", 30_000, 1);
  }

  /** How long a call with its retries may take, in milliseconds. */
  public int apiTimeoutMs() {
    return getInt("default.api.timeout.ms", 60_000, 1);
  }

  public int retryBackoffMs() {
    return getInt("retry.backoff.ms", 100, 0);
  }

  public int retryBackoffMaxMs() {
    return getInt("retry.backoff.max.ms", 1_000, 0);
  }

  public int connectTimeoutMs() {
    return getInt("socket.connection.setup.timeout.ms", 10_000, 1);
  }

  public long connectionsMaxIdleMs() {
    return getLong("connections.max.idle.ms", 540_000, 0);
  }

  public boolean checkCrcs() {
    return !"false".equalsIgnoreCase(values.get("check.crcs"));
  }

  public int fetchMinBytes() {
    return getInt("fetch.min.bytes", 1, 1);
  }

  public int fetchMaxWaitMs() {
    return getInt("fetch.max.wait.ms", 500, 0);
  }

  /** Most bytes of one request; 4 MiB instead of 1 as in Kafka's consumer, because one response becomes one batch. */
  public int maxPartitionFetchBytes() {
    return getInt("max.partition.fetch.bytes", 4 << 20, 1);
  }

  /** What one compressed batch may become; the name and default of Bowstring's other clients, 128 MiB. */
  public int maxDecompressedBatchBytes() {
    return getInt("max.decompressed.batch.bytes", 128 << 20, 1);
  }

  /** Size of the socket's receive buffer in bytes, -1 to leave it to the system. */
  public int receiveBufferBytes() {
    return getInt("receive.buffer.bytes", -1, -1);
  }

  /** Size of the socket's send buffer in bytes, -1 to leave it to the system. */
  public int sendBufferBytes() {
    return getInt("send.buffer.bytes", -1, -1);
  }

  /** Whether records of open and aborted transactions are hidden. */
  public boolean isReadCommitted() {
    String level = values.getOrDefault("isolation.level", "read_uncommitted").toLowerCase(Locale.ROOT);
    return switch (level) {
      case "read_committed" -> true;
      case "read_uncommitted" -> false;
      default -> throw new IllegalArgumentException(
          "Option 'kafka.isolation.level' is '" + level + "': give read_uncommitted or read_committed");
    };
  }
}
