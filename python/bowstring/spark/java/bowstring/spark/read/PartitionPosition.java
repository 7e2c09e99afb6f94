package bowstring.spark.read;

import bowstring.spark.wire.TopicPartition;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;

/** The position of a real-time reader: the next unread offset. */
record PartitionPosition(TopicPartition partition, long offset) implements PartitionOffset {}
