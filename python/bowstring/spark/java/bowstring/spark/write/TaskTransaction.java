package bowstring.spark.write;

import bowstring.spark.wire.ApiKey;
import bowstring.spark.wire.ClusterClient;
import bowstring.spark.wire.Connection;
import bowstring.spark.wire.CoordinatorClient;
import bowstring.spark.wire.OpenTransaction;
import bowstring.spark.wire.TopicPartition;
import bowstring.spark.wire.TransactionRequests;
import bowstring.spark.wire.WireException;
import java.io.IOException;
import java.util.HashSet;
import java.util.Set;

/**
 * The transaction in which a task sends (KIP-98). Its end is the driver's: the task neither commits nor aborts.
 *
 * <p>In version 2 of transactions (KIP-890) the brokers add partitions by themselves, when records of the transaction
 * arrive in a Produce request of a newer version.
 */
final class TaskTransaction {
  /** From this version of Produce on, brokers add its partitions to the transaction. */
  private static final int PRODUCE_ADDS_PARTITIONS = 12;

  private final CoordinatorClient coordinators;
  private final OpenTransaction transaction;
  private final boolean version2;
  private final Set<TopicPartition> partitions = new HashSet<>();

  private TaskTransaction(CoordinatorClient coordinators, String id, TransactionRequests.Producer producer) {
    this.coordinators = coordinators;
    this.transaction = new OpenTransaction(id, producer.id(), producer.epoch());
    this.version2 = producer.version2();
  }

  /** Begins a transaction, and fences earlier producers of that name. */
  static TaskTransaction begin(String transactionalId, SinkOptions options, ClusterClient cluster) throws IOException {
    CoordinatorClient coordinators = new CoordinatorClient(cluster, options.client);
    return new TaskTransaction(coordinators, transactionalId,
        coordinators.initProducer(transactionalId, options.transactionTimeoutMs));
  }

  OpenTransaction opened() {
    return transaction;
  }

  String id() {
    return transaction.transactionalId();
  }

  /** Makes a partition part of the transaction before its first batch is sent. */
  void join(TopicPartition partition) throws IOException {
    if (partitions.add(partition) && !version2) {
      coordinators.addPartition(transaction, partition);
    }
  }

  /** The version of Produce that fits. */
  int produceVersion(Connection connection) throws WireException {
    int newest = connection.versions().common(ApiKey.PRODUCE);
    return version2 ? newest : Math.min(newest, PRODUCE_ADDS_PARTITIONS - 1);
  }
}
