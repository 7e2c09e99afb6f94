package bowstring.spark.read;

import bowstring.spark.wire.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;

/** How far a real-time reader came: the next offset that was not read. */
record PartitionPosition(TopicPartition partition, long offset) implements PartitionOffset {}
