package bowstring.spark.write;

import bowstring.spark.wire.ResponseReader;
import bowstring.spark.wire.TopicPartition;
import bowstring.spark.wire.WireException;
import java.util.Map;

/** Reads the answer to a Produce request, versions 3 to 12. */
final class ProduceResponse {
  private ProduceResponse() {}

  /** The time of records that keep their own. */
  static final long NO_TIME = -1;

  /**
   * Stores each partition's error code in the maps, the broker's message if there is one, and the time that the broker
   * gave the records if it did.
   */
  static void read(ResponseReader response, Map<TopicPartition, Short> errors, Map<TopicPartition, String> messages,
      Map<TopicPartition, Long> times) throws WireException {
    int version = response.version();
    for (int topics = response.array(); topics > 0; topics--) {
      String topic = response.string();
      for (int partitions = response.array(); partitions > 0; partitions--) {
        TopicPartition partition = new TopicPartition(topic, response.int32());
        errors.put(partition, response.int16());
        response.int64(); // base_offset
        long logAppendTimeMs = response.int64();
        if (logAppendTimeMs != NO_TIME) {
          times.put(partition, logAppendTimeMs);
        }
        if (version >= 5) {
          response.int64(); // log_start_offset
        }
        String message = version >= 8 ? words(response) : null;
        if (message != null) {
          messages.put(partition, message);
        }
        response.tags();
      }
      response.tags();
    }
    response.int32(); // throttle_time_ms
    response.tags();
  }

  private static String words(ResponseReader response) throws WireException {
    String ofRecord = null;
    for (int records = response.array(); records > 0; records--) {
      int index = response.int32();
      String text = response.string();
      if (ofRecord == null && text != null) {
        ofRecord = "record " + index + ": " + text;
      }
      response.tags();
    }
    String ofBatch = response.string();
    return ofRecord != null ? ofRecord : ofBatch;
  }
}
