package bowstring.spark.write.once;

import bowstring.spark.wire.GroupOffsets;
import bowstring.spark.wire.OpenTransaction;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.zip.DataFormatException;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/**
 * What the driver decided last: the transactions of a batch are committed.
 *
 * <p>It is metadata of a group: the batch, and rows of JSON (partition, attempt, producer id, epoch), compressed, in
 * Base85. The Python engine has the same form (bowstring/spark/coordination.py), so that a query may change its engine.
 */
public record Decision(long batch, List<OpenTransaction> transactions) {
  private static final String FORM = "2:";

  /** Earlier versions stored the offset batch + 1 instead of the batch's number. */
  private static final String EARLIER_FORM = "1:";

  private static final int METADATA_MAX_BYTES = 1 << 20;
  private static final ObjectMapper MAPPER = new ObjectMapper();

  /** The metadata that names a batch and its transactions. */
  static String pack(String write, long batch, List<OpenTransaction> transactions) {
    long[][] rows = new long[transactions.size()][];
    int prefix = Coordination.PREFIX.length() + write.length() + 1;
    for (int i = 0; i < rows.length; i++) {
      OpenTransaction each = transactions.get(i);
      String[] task = each.transactionalId().substring(prefix).split("-");
      rows[i] = new long[] {Long.parseLong(task[0]), Long.parseLong(task[1]), each.producerId(), each.epoch()};
    }
    Deflater deflater = new Deflater(Deflater.BEST_COMPRESSION);
    try {
      byte[] json = MAPPER.writeValueAsString(rows).getBytes(StandardCharsets.US_ASCII);
      deflater.setInput(json);
      deflater.finish();
      byte[] packed = new byte[json.length + 64]; // more than zlib's overhead for what does not compress
      return FORM + batch + ":" + Base85.encode(Arrays.copyOf(packed, deflater.deflate(packed)));
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    } finally {
      deflater.end();
    }
  }

  /**
   * Returns the decision that is stored with an offset.
   *
   * @throws IllegalArgumentException if it is of another form
   */
  static Decision unpack(String write, GroupOffsets.Committed stored) {
    String metadata = stored.metadata();
    if (metadata.startsWith(EARLIER_FORM)) {
      return new Decision(stored.offset() - 1, transactions(write, metadata.substring(EARLIER_FORM.length())));
    }
    int end = metadata.indexOf(':', FORM.length());
    if (!metadata.startsWith(FORM) || end < 0) {
      throw new IllegalArgumentException("not a decision: " + metadata);
    }
    long batch = Long.parseLong(metadata.substring(FORM.length(), end));
    return new Decision(batch, transactions(write, metadata.substring(end + 1)));
  }

  private static List<OpenTransaction> transactions(String write, String packed) {
    List<OpenTransaction> transactions = new ArrayList<>();
    try {
      long[][] rows = MAPPER.readValue(inflated(Base85.decode(packed)), long[][].class);
      for (long[] row : rows) {
        if (row.length != 4) {
          throw new IllegalArgumentException("not a decision: " + Arrays.toString(row));
        }
        String id = Attempt.transactionalId(write, Math.toIntExact(row[0]), Math.toIntExact(row[1]));
        transactions.add(new OpenTransaction(id, row[2], (short) row[3]));
      }
      return transactions;
    } catch (DataFormatException | JsonProcessingException | ArithmeticException | NullPointerException other) {
      throw new IllegalArgumentException(other);
    }
  }

  private static String inflated(byte[] packed) throws DataFormatException {
    Inflater inflater = new Inflater();
    try {
      inflater.setInput(packed);
      byte[] text = new byte[METADATA_MAX_BYTES];
      int length = inflater.inflate(text);
      if (!inflater.finished()) {
        throw new DataFormatException("it is cut off, or longer than " + METADATA_MAX_BYTES + " bytes");
      }
      return new String(text, 0, length, StandardCharsets.US_ASCII);
    } finally {
      inflater.end();
    }
  }
}
