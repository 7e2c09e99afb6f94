package bowstring.spark.read;

import bowstring.spark.wire.HostPort;
import java.util.UUID;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * What one task reads: an offset range, with the leader and topic id that the driver knew, so that the task needs no
 * metadata of its own unless things changed.
 */
public record RecordPartition(OffsetRange range, HostPort leader, UUID topicId) implements InputPartition {}
