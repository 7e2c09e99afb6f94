package bowstring.spark.write.once;

import bowstring.spark.audit.WindowCounts;
import bowstring.spark.wire.OpenTransaction;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * A task's report when all its records are acknowledged.
 *
 * @param prepared its transaction; null without one, or if it sent nothing
 * @param decided whether it sent nothing because its batch was decided before
 * @param topic one of those that it sent to; null if it sent nothing
 * @param counts of the records by window; null without an audit
 */
public record Written(long records, long bytes, OpenTransaction prepared, boolean decided, String topic,
    WindowCounts counts)
    implements WriterCommitMessage {
  private static final long serialVersionUID = 1L;
}
