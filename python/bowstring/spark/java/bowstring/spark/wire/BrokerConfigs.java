package bowstring.spark.wire;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** DescribeConfigs of one broker. */
public final class BrokerConfigs {
  private static final int BROKER = 4;

  private BrokerConfigs() {}

  /** Returns the broker's values of some configs; unknown ones are left out. */
  public static Map<String, String> ask(Connection connection, int nodeId, List<String> names) throws IOException {
    RequestWriter request = connection.request(ApiKey.DESCRIBE_CONFIGS);
    request.array(1).int8(BROKER).string(Integer.toString(nodeId)).array(names.size());
    for (String name : names) {
      request.string(name);
    }
    request.tags().bool(false); // include_synonyms
    if (request.version() >= 3) {
      request.bool(false); // include_documentation
    }
    return read(connection.call(request.tags()), nodeId);
  }

  private static Map<String, String> read(ResponseReader response, int nodeId) throws IOException {
    Map<String, String> values = new HashMap<>();
    response.int32(); // throttle_time_ms
    for (int results = response.array(); results > 0; results--) {
      short error = response.int16();
      response.string(); // error_message
      response.int8(); // resource_type
      response.string(); // resource_name
      if (error != 0) {
        throw new WireException.BrokerError(error, "Reading the configs of broker " + nodeId);
      }
      for (int n = response.array(); n > 0; n--) {
        values.put(response.string(), response.string());
        skipRest(response);
      }
      response.tags();
    }
    return values;
  }

  private static void skipRest(ResponseReader response) throws IOException {
    response.bool(); // read_only
    response.int8(); // config_source
    response.bool(); // is_sensitive
    for (int synonyms = response.array(); synonyms > 0; synonyms--) {
      response.string();
      response.string();
      response.int8();
      response.tags();
    }
    if (response.version() >= 3) {
      response.int8(); // config_type
      response.string(); // documentation
    }
    response.tags();
  }
}
