package bowstring.spark.wire;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** The requests about a group's offsets to its coordinator, from outside the group. */
public final class GroupOffsets {
  private GroupOffsets() {}

  /** The offset that means none; metadata may be stored with it. */
  public static final long NONE = -1;

  /** An offset, and what was stored with it. */
  public record Committed(long offset, String metadata) {}

  /** Returns what is stored for a group in any partition: offsets, and metadata without an offset. */
  static List<Committed> all(Connection connection, String group) throws IOException {
    RequestWriter request = connection.request(ApiKey.OFFSET_FETCH);
    request.string(group).array(-1); // of all partitions
    if (request.version() >= 7) {
      request.bool(true); // require_stable
    }
    ResponseReader response = connection.call(request.tags());
    int version = response.version();
    if (version >= 3) {
      response.int32(); // throttle_time_ms
    }
    List<Committed> found = new ArrayList<>();
    short failed = 0;
    for (int topics = response.array(); topics > 0; topics--) {
      response.string();
      for (int n = response.array(); n > 0; n--) {
        response.int32();
        long offset = response.int64();
        if (version >= 5) {
          response.int32(); // committed_leader_epoch
        }
        String metadata = response.string();
        short code = response.int16();
        failed = code != 0 ? code : failed;
        response.tags();
        if (offset >= 0 || metadata != null && !metadata.isEmpty()) {
          found.add(new Committed(offset, metadata == null ? "" : metadata));
        }
      }
      response.tags();
    }
    short code = response.int16();
    if (code != 0 || failed != 0) {
      throw new WireException.BrokerError(code != 0 ? code : failed, "Reading the offsets of group " + group);
    }
    return found;
  }

  /** Stores an offset with its metadata. */
  static Void commit(Connection connection, String group, TopicPartition partition, Committed offset)
      throws IOException {
    RequestWriter request = connection.request(ApiKey.OFFSET_COMMIT);
    int version = request.version();
    request.string(group).int32(-1).string(""); // no generation, no member
    if (version >= 7) {
      request.string(null); // group_instance_id
    }
    if (version <= 4) {
      request.int64(-1); // retention_time_ms
    }
    request.array(1).string(partition.topic()).array(1).int32(partition.partition()).int64(offset.offset);
    if (version >= 6) {
      request.int32(-1); // committed_leader_epoch
    }
    ResponseReader response = connection.call(request.string(offset.metadata).tags().tags().tags());
    if (version >= 3) {
      response.int32(); // throttle_time_ms
    }
    for (int topics = response.array(); topics > 0; topics--) {
      response.string();
      for (int n = response.array(); n > 0; n--) {
        response.int32();
        short code = response.int16();
        if (code != 0) {
          throw new WireException.BrokerError(code, "Storing an offset of group " + group);
        }
        response.tags();
      }
      response.tags();
    }
    return null;
  }
}
