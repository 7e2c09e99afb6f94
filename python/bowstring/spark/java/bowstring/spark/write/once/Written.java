package bowstring.spark.write.once;

import bowstring.spark.wire.OpenTransaction;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * A task's report when all its records are acknowledged.
 *
 * @param prepared its transaction; null without one, or if it sent nothing
 * @param decided whether it sent nothing because its batch was decided before
 * @param topic one of those that it sent to; null if it sent nothing
 */
public record Written(long records, long bytes, OpenTransaction prepared, boolean decided, String topic)
    implements WriterCommitMessage {
  private static final long serialVersionUID = 1L;
}
