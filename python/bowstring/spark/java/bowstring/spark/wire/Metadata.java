package bowstring.spark.wire;

import java.io.IOException;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;

/**
 * Metadata of the cluster: brokers, and the requested topics with their partitions' leaders.
 *
 * <p>A topic that does not exist is not in {@link #topics}.
 */
public final class Metadata {
  private static final UUID NO_ID = new UUID(0, 0);
  private static final int NO_LEADER = -1;

  /** A partition's leader: the broker's id (-1 if there is none) and the leader epoch. */
  public record Leader(int brokerId, int epoch) {}

  /** A topic: its id (zero before Kafka 2.8), and the leader of each partition. */
  public record Topic(String name, UUID id, boolean internal, TreeMap<Integer, Leader> partitions) {}

  private final Map<Integer, HostPort> brokers = new HashMap<>();
  private final Map<String, Topic> topics = new TreeMap<>();
  private final Map<String, ErrorCode> errors = new TreeMap<>();

  private String clusterId;

  private Metadata() {}

  /** Requests some topics, or all if {@code names} is null. Never creates a topic. */
  static Metadata ask(Connection connection, Collection<String> names) throws IOException {
    return ask(connection, names, false);
  }

  /** The same; with {@code create}, a broker that creates topics on first use creates them. */
  static Metadata ask(Connection connection, Collection<String> names, boolean create) throws IOException {
    RequestWriter request = connection.request(ApiKey.METADATA);
    int version = request.version();
    request.array(names == null ? -1 : names.size());
    if (names != null) {
      for (String name : names) {
        if (version >= 10) {
          request.uuid(NO_ID);
        }
        request.string(name).tags();
      }
    }
    if (version >= 4) {
      request.bool(create); // allow_auto_topic_creation
    }
    if (version >= 8 && version <= 10) {
      request.bool(false); // include_cluster_authorized_operations
    }
    if (version >= 8) {
      request.bool(false); // include_topic_authorized_operations
    }
    return read(connection.call(request.tags()));
  }

  private static Metadata read(ResponseReader response) throws IOException {
    Metadata metadata = new Metadata();
    int version = response.version();
    if (version >= 3) {
      response.int32(); // throttle_time_ms
    }
    for (int n = response.array(); n > 0; n--) {
      int id = response.int32();
      metadata.brokers.put(id, new HostPort(response.string(), response.int32()));
      response.string(); // rack
      response.tags();
    }
    if (version >= 2) {
      metadata.clusterId = response.string();
    }
    response.int32(); // controller_id
    for (int n = response.array(); n > 0; n--) {
      metadata.readTopic(response);
    }
    return metadata;
  }

  private void readTopic(ResponseReader response) throws IOException {
    int version = response.version();
    ErrorCode error = ErrorCode.of(response.int16());
    String name = response.string();
    UUID id = version >= 10 ? response.uuid() : NO_ID;
    boolean internal = response.bool();
    TreeMap<Integer, Leader> partitions = new TreeMap<>();
    for (int n = response.array(); n > 0; n--) {
      response.int16(); // error_code: also visible as a leader of -1
      int partition = response.int32();
      int leader = response.int32();
      int epoch = version >= 7 ? response.int32() : -1;
      skipIds(response); // replicas
      skipIds(response); // in-sync replicas
      if (version >= 5) {
        skipIds(response); // offline replicas
      }
      response.tags();
      partitions.put(partition, new Leader(leader, epoch));
    }
    if (version >= 8) {
      response.int32(); // topic_authorized_operations
    }
    response.tags();
    if (error == ErrorCode.NONE) {
      topics.put(name, new Topic(name, id, internal, partitions));
    } else if (name != null) {
      errors.put(name, error);
    }
  }

  private static void skipIds(ResponseReader response) throws WireException.MalformedResponse {
    response.skip(Math.multiplyExact(4, Math.max(0, response.array())));
  }

  /** Topics that exist, by name. */
  public Map<String, Topic> topics() {
    return Collections.unmodifiableMap(topics);
  }

  /** Why a requested topic is missing; NONE if it exists. */
  public ErrorCode error(String topic) {
    return errors.getOrDefault(topic, ErrorCode.NONE);
  }

  /** The cluster's id, which a broker's local socket must repeat; null from brokers without one. */
  public String clusterId() {
    return clusterId;
  }

  /** All brokers' addresses by id. */
  public Map<Integer, HostPort> brokers() {
    return Collections.unmodifiableMap(brokers);
  }

  /** Whether the partition exists. */
  public boolean exists(TopicPartition partition) {
    Topic topic = topics.get(partition.topic());
    return topic != null && topic.partitions().containsKey(partition.partition());
  }

  /** The address of the partition's leader, or null if it has none now. */
  public HostPort leader(TopicPartition partition) {
    Topic topic = topics.get(partition.topic());
    Leader leader = topic == null ? null : topic.partitions().get(partition.partition());
    return leader == null || leader.brokerId() == NO_LEADER ? null : brokers.get(leader.brokerId());
  }
}
