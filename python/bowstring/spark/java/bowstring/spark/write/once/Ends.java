package bowstring.spark.write.once;

import bowstring.spark.wire.OpenTransaction;
import bowstring.spark.wire.WireException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The ends of a write, from the reports of its tasks: whole steps of the driver. */
public final class Ends {
  private static final Logger LOG = LoggerFactory.getLogger(Ends.class);

  private Ends() {}

  /** Decides about a micro-batch and commits it; or commits it as it was decided before. */
  public static void commitBatch(Coordination coordination, long batch, WriterCommitMessage[] messages)
      throws IOException {
    List<OpenTransaction> chosen = chosen(messages);
    Decision decision = coordination.decided(batch);
    if (decision != null) {
      coordination.commit(decision.transactions(), "batch " + batch);
      chosen.removeAll(decision.transactions());
      coordination.abort(chosen);
      LOG.info("Batch {} was decided before; its transactions are committed", batch);
      return;
    }
    if (written(messages).stream().anyMatch(Written::decided)) {
      throw new OnceException.Checkpoint(
          "the decision about batch " + batch + " disappeared while the batch ran: start the query again");
    }
    if (!chosen.isEmpty()) {
      List<OpenTransaction> rest = coordination.leftovers(chosen, messages.length);
      String topic = written(messages).stream().map(Written::topic).filter(Objects::nonNull).sorted().findFirst().get();
      coordination.decide(batch, topic, chosen);
      coordination.commit(chosen, "batch " + batch);
      coordination.abort(rest);
    }
  }

  /** Commits a batch job, which has no decision: a driver that dies while it commits leaves a part. */
  public static void commitJob(Coordination coordination, WriterCommitMessage[] messages) throws IOException {
    List<OpenTransaction> chosen = chosen(messages);
    List<OpenTransaction> rest = coordination.leftovers(chosen, messages.length);
    coordination.commit(chosen, "the write");
    coordination.abort(rest);
  }

  /**
   * Aborts what the tasks of a failed write prepared, unless it is decided. If all tasks have succeeded, their commit
   * failed, and may be decided: nothing is aborted then.
   *
   * @param batch of a streaming query, else {@link Attempt#NO_BATCH}
   */
  public static void abort(Coordination coordination, long batch, WriterCommitMessage[] messages) throws IOException {
    if (Arrays.stream(messages).allMatch(Objects::nonNull)) {
      return;
    }
    Decision decision = batch == Attempt.NO_BATCH ? null : coordination.decision();
    if (decision != null && decision.batch() >= batch) {
      return;
    }
    List<OpenTransaction> open = chosen(messages);
    try {
      List<OpenTransaction> rest = coordination.leftovers(List.of(), messages.length);
      rest.removeAll(open);
      open.addAll(rest);
    } catch (WireException failed) {
      LOG.warn("Transactions of failed tasks stay open until their timeouts: {}", failed.getMessage());
    }
    coordination.abort(open);
  }

  private static List<Written> written(WriterCommitMessage[] messages) {
    List<Written> found = new ArrayList<>();
    for (WriterCommitMessage each : messages) {
      if (each instanceof Written done) {
        found.add(done);
      }
    }
    return found;
  }

  private static List<OpenTransaction> chosen(WriterCommitMessage[] messages) {
    List<OpenTransaction> found = new ArrayList<>();
    for (Written each : written(messages)) {
      if (each.prepared() != null) {
        found.add(each.prepared());
      }
    }
    return found;
  }
}
