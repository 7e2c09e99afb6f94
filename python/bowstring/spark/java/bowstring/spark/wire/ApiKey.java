package bowstring.spark.wire;

/**
 * The Kafka APIs this client speaks, with the versions it reads and writes.
 *
 * <p>A request goes out at the highest version both sides know (KIP-35). The first flexible version is where compact
 * strings and tagged fields begin (KIP-482).
 */
public enum ApiKey {
  PRODUCE(0, 3, 11, 9),
  FETCH(1, 4, 17, 12),
  LIST_OFFSETS(2, 1, 7, 6),
  METADATA(3, 1, 12, 9),
  API_VERSIONS(18, 0, 3, 3),
  INIT_PRODUCER_ID(22, 0, 4, 2),
  DESCRIBE_CONFIGS(32, 1, 4, 4);

  /** The API's number on the wire. */
  public final short id;

  /** Lowest and highest versions this client implements. */
  public final short minVersion;

  public final short maxVersion;

  private final short firstFlexibleVersion;

  ApiKey(int id, int minVersion, int maxVersion, int firstFlexibleVersion) {
    this.id = (short) id;
    this.minVersion = (short) minVersion;
    this.maxVersion = (short) maxVersion;
    this.firstFlexibleVersion = (short) firstFlexibleVersion;
  }

  /** Whether {@code version} of this API uses compact types and tagged fields. */
  public boolean isFlexible(int version) {
    return version >= firstFlexibleVersion;
  }
}
