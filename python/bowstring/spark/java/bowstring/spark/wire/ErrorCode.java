package bowstring.spark.wire;

import java.util.HashMap;
import java.util.Map;

/** Kafka's error codes that this client handles: whether a retry may help, and what the user can do. */
public enum ErrorCode {
  UNKNOWN_SERVER_ERROR(-1, false, "see the broker's log"),
  NONE(0, false, ""),
  OFFSET_OUT_OF_RANGE(1, false, "the offset was deleted by retention or never written"),
  CORRUPT_MESSAGE(2, true, "a checksum in the request or in the broker's log does not match"),
  UNKNOWN_TOPIC_OR_PARTITION(3, true, "create the topic, or check its name"),
  INVALID_FETCH_SIZE(4, false, "raise kafka.max.partition.fetch.bytes"),
  LEADER_NOT_AVAILABLE(5, true, "the partition has no leader yet"),
  NOT_LEADER_OR_FOLLOWER(6, true, "the partition moved to another broker"),
  REQUEST_TIMED_OUT(7, true, "the broker did not answer in time"),
  BROKER_NOT_AVAILABLE(8, true, "the broker is not available"),
  REPLICA_NOT_AVAILABLE(9, true, "the replica is not available"),
  MESSAGE_TOO_LARGE(10, false, "lower the batch size, or raise max.message.bytes of the topic"),
  OFFSET_METADATA_TOO_LARGE(12, false, "raise offset.metadata.max.bytes of the brokers"),
  NETWORK_EXCEPTION(13, true, "the connection to the broker was lost"),
  COORDINATOR_LOAD_IN_PROGRESS(14, true, "the coordinator is loading"),
  COORDINATOR_NOT_AVAILABLE(15, true, "the coordinator is not available"),
  NOT_COORDINATOR(16, true, "the coordinator moved"),
  INVALID_TOPIC_EXCEPTION(17, false, "the name is not a legal topic name"),
  RECORD_LIST_TOO_LARGE(18, false, "lower the batch size, or raise segment.bytes of the topic"),
  NOT_ENOUGH_REPLICAS(19, true, "fewer replicas are in sync than min.insync.replicas"),
  NOT_ENOUGH_REPLICAS_AFTER_APPEND(20, true, "fewer replicas are in sync than min.insync.replicas"),
  INVALID_REQUIRED_ACKS(21, false, "kafka.acks must be 0, 1 or all"),
  TOPIC_AUTHORIZATION_FAILED(29, false, "the user may not use this topic: see the ACLs"),
  GROUP_AUTHORIZATION_FAILED(30, false, "the user may not use this group: see the ACLs"),
  CLUSTER_AUTHORIZATION_FAILED(31, false, "the user may not do this on the cluster: see the ACLs"),
  INVALID_GROUP_ID(24, false, "the group's name is not valid"),
  UNKNOWN_MEMBER_ID(25, false, "the group has members: nothing else may use it"),
  INVALID_TIMESTAMP(32, false, "the timestamp is outside what the topic accepts"),
  UNSUPPORTED_VERSION(35, false, "the broker does not support this version of the request"),
  NOT_CONTROLLER(41, true, "the controller moved"),
  INVALID_REQUEST(42, false, "the broker did not understand the request"),
  UNSUPPORTED_FOR_MESSAGE_FORMAT(43, false, "the topic has records of a format before 0.11"),
  POLICY_VIOLATION(44, false, "a policy of the broker forbids it"),
  OUT_OF_ORDER_SEQUENCE_NUMBER(45, false, "records of this producer are missing in the log"),
  DUPLICATE_SEQUENCE_NUMBER(46, false, "the batch was written before"),
  INVALID_PRODUCER_EPOCH(47, false, "another producer took over this producer id"),
  INVALID_TXN_STATE(48, false, "the transaction has ended already"),
  INVALID_PRODUCER_ID_MAPPING(49, false, "the transactional id has another producer id, or expired"),
  INVALID_TRANSACTION_TIMEOUT(50, false,
      "lower kafka.transaction.timeout.ms, or raise transaction.max.timeout.ms of the brokers"),
  CONCURRENT_TRANSACTIONS(51, true, "the transaction before is still being ended"),
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED(53, false, "the user may not use this transactional id"),
  SECURITY_DISABLED(54, false, "the broker has no security configured"),
  OPERATION_NOT_ATTEMPTED(55, true, "another part of the request failed"),
  KAFKA_STORAGE_ERROR(56, true, "the broker's disk failed: another broker may take over"),
  UNKNOWN_PRODUCER_ID(59, false, "the broker no longer knows this producer id"),
  FETCH_SESSION_ID_NOT_FOUND(70, true, "the fetch session ended"),
  INVALID_FETCH_SESSION_EPOCH(71, true, "the fetch session ended"),
  FENCED_LEADER_EPOCH(74, true, "the partition has a newer leader"),
  UNKNOWN_LEADER_EPOCH(75, true, "the broker does not know the newest leader yet"),
  UNSUPPORTED_COMPRESSION_TYPE(76, false, "the broker does not support this compression"),
  OFFSET_NOT_AVAILABLE(78, true, "the leader is new and does not know its high watermark yet"),
  INVALID_RECORD(87, false, "the broker refused a record"),
  UNSTABLE_OFFSET_COMMIT(88, true, "a transaction is open"),
  THROTTLING_QUOTA_EXCEEDED(89, true, "a quota is exceeded"),
  PRODUCER_FENCED(90, false, "another producer took over"),
  UNKNOWN_TOPIC_ID(100, true, "the topic was deleted, or deleted and created again"),
  INCONSISTENT_TOPIC_ID(103, true, "the topic was deleted and created again"),
  TRANSACTIONAL_ID_NOT_FOUND(105, false, "no producer has used the transactional id"),
  TRANSACTION_ABORTABLE(120, false, "the transaction has to be aborted"),
  OTHER(Short.MIN_VALUE, false, "see Kafka's documentation of error codes");

  private static final Map<Short, ErrorCode> BY_CODE = new HashMap<>();

  static {
    for (ErrorCode error : values()) {
      BY_CODE.put(error.code, error);
    }
  }

  /** The code on the wire. */
  public final short code;

  /** Whether Kafka calls the error retriable. */
  public final boolean retriable;

  /** Advice for the user. */
  public final String advice;

  ErrorCode(int code, boolean retriable, String advice) {
    this.code = (short) code;
    this.retriable = retriable;
    this.advice = advice;
  }

  /** The error of {@code code}; {@link #OTHER} for unknown codes. */
  public static ErrorCode of(short code) {
    return BY_CODE.getOrDefault(code, OTHER);
  }

  /** Whether fresh metadata may resolve this error. */
  public boolean isLeaderChange() {
    return switch (this) {
      case UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REPLICA_NOT_AVAILABLE,
          KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID,
          BROKER_NOT_AVAILABLE, NETWORK_EXCEPTION -> true;
      default -> false;
    };
  }
}
