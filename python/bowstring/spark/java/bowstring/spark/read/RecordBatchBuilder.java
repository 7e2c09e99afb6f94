package bowstring.spark.read;

import bowstring.spark.audit.WindowCounts;
import bowstring.spark.decode.RecordColumns;
import bowstring.spark.decode.RecordDecoder;
import bowstring.spark.decode.RecordVectors;
import bowstring.spark.values.BadValueException;
import bowstring.spark.values.ValueDecoder;
import bowstring.spark.wire.ClientOptions;
import bowstring.spark.wire.TopicPartition;
import bowstring.spark.wire.WireException;
import java.io.Closeable;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Builds one reader's columns: decodes regions into the wanted columns, including typed values, as one ColumnarBatch.
 */
final class RecordBatchBuilder implements Closeable {
  private final RecordDecoder decoder;
  private final RecordColumns columns;
  private static final byte[] SCHEMA_HEADER = ValueDecoder.SCHEMA_HEADER.getBytes(StandardCharsets.UTF_8);

  private final ValueDecoder values;

  /** Whether headers may name the schemas of values. */
  private final boolean keyed;

  private int[] keyAt = new int[0];
  private int[] keyLength = new int[0];
  private final ColumnarBatch batch;
  private final TopicPartition partition;

  /** Whether the batch has fewer rows than records were read, because a limit is reached. */
  private boolean isCut;

  /**
   * Columns for one partition.
   *
   * @param withOffsets whether offsets are needed even if the query does not ask for them
   * @param withTimestamps the same of timestamps
   */
  RecordBatchBuilder(ReadSettings settings, ClientOptions options, TopicPartition partition, boolean withOffsets,
      boolean withTimestamps) {
    this.partition = partition;
    Set<String> names = new HashSet<>(Arrays.asList(settings.schema().fieldNames()));
    values = settings.format() == null ? null : settings.format().decoder(settings.schema());
    if (settings.format() != null) {
      names.remove("value");
    }
    if (values != null) {
      names.add("value");
    }
    keyed = values != null && settings.format().isRegistered();
    if (keyed) {
      names.add("headers");
    }
    if (withOffsets || values != null && settings.format().failsFast()) {
      names.add("offset");
    }
    if (withTimestamps) {
      names.add("timestamp");
    }
    columns = new RecordColumns(names);
    decoder = new RecordDecoder(columns, options.checkCrcs(), options.isReadCommitted(), settings.minTimestampMs(),
        options.maxDecompressedBatchBytes());
    StructField[] fields = settings.schema().fields();
    ColumnVector[] vectors = new ColumnVector[fields.length];
    for (int i = 0; i < fields.length; i++) {
      vectors[i] = vector(fields[i].name(), settings, partition);
    }
    batch = new ColumnarBatch(vectors);
  }

  private ColumnVector vector(String name, ReadSettings settings, TopicPartition partition) {
    if (values != null) {
      ColumnVector decoded = values.column(name);
      if (decoded != null) {
        return decoded;
      }
    }
    ColumnVector plain = RecordVectors.of(name, columns, partition.topic(), partition.partition());
    return values == null ? plain : values.kept(plain);
  }

  /** Passes the next region. */
  void begin(Regions regions) {
    decoder.begin(regions.buffer(), regions.position(), regions.limit(), regions.hasSlack(), regions.aborted());
  }

  /**
   * Fills the batch with the region's next records in [start, end).
   *
   * @return false if the region has no more of them; a batch may have no rows, if none of its values decodes
   * @throws BadValueException in the mode FAILFAST, with partition and offset of a value that does not decode
   */
  boolean next(long start, long end, long mostRows) throws WireException {
    if (!decoded(start, end)) {
      return false;
    }
    int rows = columns.rows();
    if (values != null) {
      try {
        rows = decodeValues(rows);
      } catch (BadValueException bad) {
        throw bad.of(partition + " at offset " + columns.offset(bad.row()));
      }
    }
    isCut = mostRows < rows;
    batch.setNumRows((int) Math.min(rows, mostRows));
    return true;
  }

  private int decodeValues(int rows) {
    if (!keyed) {
      return values.decode(null, columns.base(), columns.valueAt(), columns.valueLength(), rows);
    }
    if (keyAt.length < rows) {
      keyAt = new int[rows + rows / 2];
      keyLength = new int[keyAt.length];
    }
    columns.findHeaders(SCHEMA_HEADER, keyAt, keyLength);
    return values.decode(null, columns.base(), columns.valueAt(), columns.valueLength(), rows, keyAt, keyLength);
  }

  private boolean decoded(long start, long end) throws WireException {
    try {
      return decoder.next(start, end);
    } catch (WireException.CorruptRecords corrupt) {
      throw new WireException.CorruptRecords(partition + ": " + corrupt.getMessage(), corrupt);
    } catch (WireException.TooLarge tooLarge) {
      throw new WireException.TooLarge(partition + ": " + tooLarge.getMessage(), tooLarge);
    }
  }

  ColumnarBatch batch() {
    return batch;
  }

  /**
   * Counts the batch's records by window; needs timestamps. Those that a format drops count, too.
   *
   * @param from the first row of the batch that counts
   * @param to the row after the last
   */
  void count(WindowCounts counts, int from, int to) {
    boolean all = to == batch.numRows() && !isCut;
    int first = from == 0 ? 0 : record(from - 1) + 1;
    counts.addRows(partition.topic(), columns.timestampsMicros(), first,
        all ? columns.rows() : to == 0 ? 0 : record(to - 1) + 1);
  }

  private int record(int row) {
    return values == null ? row : values.keptRow(row);
  }

  /** The offset of a row of the batch. */
  long offset(int row) {
    return columns.offset(record(row));
  }

  /** Whether the region went beyond the end of the range. */
  boolean passedEnd() {
    return decoder.passedEnd();
  }

  @Override
  public void close() {
    decoder.close();
  }
}
