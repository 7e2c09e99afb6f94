package bowstring.spark.write.once;

import bowstring.spark.wire.ClientOptions;
import bowstring.spark.wire.ClusterClient;
import bowstring.spark.wire.CoordinatorClient;
import bowstring.spark.wire.ErrorCode;
import bowstring.spark.wire.GroupOffsets;
import bowstring.spark.wire.OpenTransaction;
import bowstring.spark.wire.TopicPartition;
import bowstring.spark.wire.WireException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The decisions and transactions of one write: the steps of a driver that commits what its tasks prepared, all or
 * nothing, and each micro-batch once. docs/decisions/0031-a-driver-decides-for-tasks.md has the protocol.
 */
public final class Coordination {
  static final String PREFIX = "bowstring-spark-";

  /** Spark repeats a task spark.task.maxFailures times; later attempts than these end by their timeouts. */
  private static final int USUAL_ATTEMPTS = 4;

  private static final Logger LOG = LoggerFactory.getLogger(Coordination.class);

  private final CoordinatorClient coordinators;
  private final String write;
  private final String group;

  /**
   * The coordination of a write.
   *
   * @param write id of the streaming query, or of the batch job
   */
  public Coordination(ClientOptions options, String write) {
    this.coordinators = new CoordinatorClient(new ClusterClient(options), options);
    this.write = write;
    this.group = PREFIX + write;
  }

  /** The last decision; null if there is none. */
  public Decision decision() throws IOException {
    try {
      Decision last = null;
      for (GroupOffsets.Committed each : coordinators.offsets(group)) {
        Decision found = Decision.unpack(write, each);
        last = last == null || found.batch() > last.batch() ? found : last;
      }
      return last;
    } catch (IllegalArgumentException other) {
      throw new OnceException.Checkpoint("the offset of group '" + group + "' has other metadata than this sink "
          + "writes: the group's offsets were changed. Delete the group if the last batch is to be written again");
    }
  }

  /**
   * Whether a batch is decided, so that its tasks send nothing.
   *
   * @throws OnceException.Checkpoint if a later batch is decided, too
   */
  public boolean isDecided(long batch) throws IOException {
    return decided(batch) != null;
  }

  /** The decision about a batch; null if there is none. */
  Decision decided(long batch) throws IOException {
    Decision found = decision();
    if (found == null || found.batch() < batch) {
      return null;
    }
    if (found.batch() > batch) {
      throw new OnceException.Checkpoint("the checkpoint is at batch " + batch + ", but batch " + found.batch()
          + " of the query is in the topic already: the checkpoint is older than the topic. To write its batches "
          + "again, which doubles rows, delete the group '" + group + "'; or begin with a new checkpoint");
    }
    return found;
  }

  /**
   * Returns what attempts that Spark did not choose have left open.
   *
   * @param chosen the transactions of the attempts that it chose
   * @param partitions how many tasks the write has
   * @throws OnceException.Undecided if a chosen one is not open any more
   */
  public List<OpenTransaction> leftovers(List<OpenTransaction> chosen, int partitions) throws IOException {
    Map<String, OpenTransaction> wanted = new LinkedHashMap<>();
    chosen.forEach(each -> wanted.put(each.transactionalId(), each));
    Set<String> names = new TreeSet<>(wanted.keySet());
    for (int partition = 0; partition < partitions; partition++) {
      for (int attempt = 0; attempt < USUAL_ATTEMPTS; attempt++) {
        names.add(Attempt.transactionalId(write, partition, attempt));
      }
    }
    Map<String, OpenTransaction> found = coordinators.open(names);
    List<String> lost = new ArrayList<>();
    wanted.forEach((name, each) -> {
      if (!each.equals(found.get(name))) {
        lost.add(name);
      }
    });
    if (!lost.isEmpty()) {
      throw new OnceException.Undecided(lost.size() + " of " + wanted.size() + " transactions were aborted before the "
          + "batch was decided, such as '" + lost.get(0) + "': by kafka.transaction.timeout.ms, or by another run of "
          + "the query. Nothing of the batch is committed. Start the query again: it writes the batch again");
    }
    found.keySet().removeAll(wanted.keySet());
    return new ArrayList<>(found.values());
  }

  /** Stores that the transactions of a batch are to be committed. */
  public void decide(long batch, String topic, List<OpenTransaction> chosen) throws IOException {
    String metadata = Decision.pack(write, batch, chosen);
    try {
      coordinators.commitOffset(group, new TopicPartition(topic, 0), GroupOffsets.NONE, metadata);
    } catch (WireException.BrokerError refused) {
      if (refused.error != ErrorCode.OFFSET_METADATA_TOO_LARGE) {
        throw refused;
      }
      throw new OnceException.Undecided("the " + chosen.size() + " transactions of batch " + batch + " do not fit into "
          + "the metadata of an offset: write with fewer tasks, with .coalesce(n), or raise "
          + "offset.metadata.max.bytes of the brokers");
    }
  }

  /**
   * Commits what is decided; may be repeated.
   *
   * @throws OnceException.DecidedLost if some are aborted
   */
  public void commit(List<OpenTransaction> transactions, String what) throws IOException {
    List<OpenTransaction> aborted = coordinators.end(transactions, true);
    if (!aborted.isEmpty()) {
      throw new OnceException.DecidedLost(what + ": " + aborted.size() + " of " + transactions.size() + " transactions "
          + "were aborted before they could be committed, such as '" + aborted.get(0).transactionalId() + "', because "
          + "the driver was away for longer than kafka.transaction.timeout.ms. Their rows are not in the topic; those "
          + "of the others are. To write the batch again, which doubles the others, delete the group '" + group
          + "' and start the query again");
    }
  }

  /** Aborts what nobody will commit; logs what cannot be aborted, which ends by its timeout. */
  public void abort(List<OpenTransaction> transactions) throws IOException {
    for (OpenTransaction each : transactions) {
      try {
        coordinators.end(List.of(each), false);
      } catch (WireException failed) {
        LOG.warn("{} stays open until its timeout: {}", each.transactionalId(), failed.getMessage());
      }
    }
  }
}
