package bowstring.spark.read;

import bowstring.spark.wire.HostPort;
import java.util.UUID;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * The input of one task: an offset range, with leader and topic id as known to the driver, so that the task needs no
 * metadata unless they have changed.
 */
public record RecordPartition(OffsetRange range, HostPort leader, UUID topicId) implements InputPartition {}
