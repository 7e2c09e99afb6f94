package bowstring.spark.wire;

import java.io.IOException;
import java.util.EnumMap;
import java.util.Map;
import java.util.Objects;

/** The versions of each API that a broker supports (KIP-35). */
public final class ApiVersions {
  private record Range(short min, short max) {}

  private static final int SOFTWARE_NAME_SINCE = 3;

  /** The tag of the finalized features (KIP-584), and the one of them that transactions depend on (KIP-890). */
  private static final int FINALIZED_FEATURES = 2;

  private static final String TRANSACTION_VERSION = "transaction.version";

  /** The jar's manifest has it from the Python package. */
  private static final String SOFTWARE_VERSION =
      Objects.requireNonNullElse(ApiVersions.class.getPackage().getImplementationVersion(), "unknown");

  /** Before the answer: only ApiVersions itself. */
  static final ApiVersions INITIAL = new ApiVersions(null);

  private final Map<ApiKey, Range> ranges = new EnumMap<>(ApiKey.class);
  private final HostPort broker;
  private short transactionVersion;

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
    if (response.version() >= SOFTWARE_NAME_SINCE) {
      response.int32(); // throttle_time_ms
      ResponseReader rest = response;
      rest.tags(tag -> {
        if (tag == FINALIZED_FEATURES) {
          versions.noteFeatures(rest);
        }
      });
    }
    return versions;
  }

  private void noteFeatures(ResponseReader response) throws WireException.MalformedResponse {
    for (int n = response.array(); n > 0; n--) {
      String name = response.string();
      short level = response.int16(); // max_version_level
      response.int16(); // min_version_level
      response.tags();
      if (TRANSACTION_VERSION.equals(name)) {
        transactionVersion = level;
      }
    }
  }

  /**
   * Whether brokers add partitions to transactions by themselves, and each end of one raises its producer's epoch
   * (KIP-890).
   */
  public boolean hasTransactionVersion2() {
    return transactionVersion >= 2;
  }

  /** The highest version of an API for transactions: some rely on version 2 of transactions from {@code since} on. */
  public int forTransactions(ApiKey api, int since) throws WireException.UnsupportedByBroker {
    return hasTransactionVersion2() ? common(api) : Math.min(common(api), since - 1);
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
