package bowstring.spark.wire;

/**
 * The Kafka APIs of this client, with the versions that it supports.
 *
 * <p>A request uses the highest version that both sides support (KIP-35). Flexible versions have compact strings and
 * tagged fields (KIP-482).
 */
public enum ApiKey {
  PRODUCE(0, 3, 12, 9),
  FETCH(1, 4, 17, 12),
  LIST_OFFSETS(2, 1, 7, 6),
  METADATA(3, 1, 12, 9),
  OFFSET_COMMIT(8, 2, 8, 8),
  OFFSET_FETCH(9, 2, 7, 6),
  FIND_COORDINATOR(10, 1, 4, 3),
  SASL_HANDSHAKE(17, 1, 1, 2),
  API_VERSIONS(18, 0, 3, 3),
  INIT_PRODUCER_ID(22, 0, 4, 2),
  ADD_PARTITIONS_TO_TXN(24, 0, 3, 3),
  END_TXN(26, 0, 5, 3),
  DESCRIBE_CONFIGS(32, 1, 4, 4),
  SASL_AUTHENTICATE(36, 0, 1, 2),
  DESCRIBE_TRANSACTIONS(65, 0, 0, 0);

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
