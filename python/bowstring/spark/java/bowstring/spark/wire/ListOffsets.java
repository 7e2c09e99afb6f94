package bowstring.spark.wire;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The ListOffsets request to one leader. */
final class ListOffsets {
  private ListOffsets() {}

  static Map<TopicPartition, Long> ask(Connection connection, List<TopicPartition> partitions,
      Map<TopicPartition, Long> timestamps, ClientOptions options) throws IOException {
    Map<String, List<TopicPartition>> byTopic = new TreeMap<>();
    for (TopicPartition partition : partitions) {
      byTopic.computeIfAbsent(partition.topic(), t -> new java.util.ArrayList<>()).add(partition);
    }
    RequestWriter request = connection.request(ApiKey.LIST_OFFSETS);
    int version = request.version();
    request.int32(-1); // replica_id: a consumer
    if (version >= 2) {
      request.int8(options.isReadCommitted() ? 1 : 0);
    }
    request.array(byTopic.size());
    for (Map.Entry<String, List<TopicPartition>> topic : byTopic.entrySet()) {
      request.string(topic.getKey()).array(topic.getValue().size());
      for (TopicPartition partition : topic.getValue()) {
        request.int32(partition.partition());
        if (version >= 4) {
          request.int32(-1); // current_leader_epoch
        }
        request.int64(timestamps.get(partition)).tags();
      }
      request.tags();
    }
    return read(connection.call(request.tags()));
  }

  private static Map<TopicPartition, Long> read(ResponseReader response) throws IOException {
    int version = response.version();
    Map<TopicPartition, Long> offsets = new HashMap<>();
    if (version >= 2) {
      response.int32(); // throttle_time_ms
    }
    for (int topics = response.array(); topics > 0; topics--) {
      String topic = response.string();
      for (int n = response.array(); n > 0; n--) {
        TopicPartition partition = new TopicPartition(topic, response.int32());
        short error = response.int16();
        if (error != 0) {
          throw new WireException.BrokerError(error, "Reading offsets of " + partition);
        }
        response.int64(); // timestamp of the record found
        offsets.put(partition, response.int64());
        if (version >= 4) {
          response.int32(); // leader_epoch
        }
        response.tags();
      }
      response.tags();
    }
    return offsets;
  }
}
