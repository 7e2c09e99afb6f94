package bowstring.spark.wire;

import java.io.IOException;
import java.util.EnumMap;
import java.util.Map;
import java.util.Objects;

/** The versions of each API that a broker supports (KIP-35). */
public final class ApiVersions {
  private record Range(short min, short max) {}

  private static final int SOFTWARE_NAME_SINCE = 3;
  /** The jar's manifest has it from the Python package. */
  private static final String SOFTWARE_VERSION =
      Objects.requireNonNullElse(ApiVersions.class.getPackage().getImplementationVersion(), "unknown");

  /** Before the answer: only ApiVersions itself. */
  static final ApiVersions INITIAL = new ApiVersions(null);

  private final Map<ApiKey, Range> ranges = new EnumMap<>(ApiKey.class);
  private final HostPort broker;

  private ApiVersions(HostPort broker) {
    this.broker = broker;
  }

  /** Asks in the version with this client's name; a broker that does not support it answers in version 0 (KIP-511). */
  static ApiVersions ask(Connection connection) throws IOException {
    RequestWriter request = connection.request(ApiKey.API_VERSIONS, SOFTWARE_NAME_SINCE);
    request.string("bowstring-spark").string(SOFTWARE_VERSION).tags();
    ResponseReader response = connection.call(request);
    short code = response.int16();
    if (ErrorCode.of(code) == ErrorCode.UNSUPPORTED_VERSION) {
      response = connection.call(connection.request(ApiKey.API_VERSIONS, 0));
      code = response.int16();
    }
    if (code != 0) {
      throw new WireException.BrokerError(code, "Asking broker " + connection.address + " for its API versions");
    }
    ApiVersions versions = new ApiVersions(connection.address);
    for (int n = response.array(); n > 0; n--) {
      versions.note(response.int16(), response.int16(), response.int16());
      response.tags();
    }
    return versions;
  }

  private void note(short id, short min, short max) {
    for (ApiKey api : ApiKey.values()) {
      if (api.id == id) {
        ranges.put(api, new Range(min, max));
      }
    }
  }

  /** The highest version of {@code api} that both sides support. */
  public short common(ApiKey api) throws WireException.UnsupportedByBroker {
    Range broker = ranges.get(api);
    if (broker != null) {
      short version = (short) Math.min(broker.max, api.maxVersion);
      if (version >= broker.min && version >= api.minVersion) {
        return version;
      }
    }
    throw new WireException.UnsupportedByBroker("Broker " + this.broker + " supports "
        + (broker == null ? "no version" : "versions " + broker.min + " to " + broker.max) + " of " + api
        + ", this client " + api.minVersion + " to " + api.maxVersion + ": the broker must be 0.11 or newer");
  }
}
