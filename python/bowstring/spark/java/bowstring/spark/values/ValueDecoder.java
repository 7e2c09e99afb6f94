package bowstring.spark.values;

import java.util.Arrays;
import java.util.Map;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Decodes the values of a batch into columns, without an object for each record. Used by one task at a time.
 *
 * <p>A reader gets it once from {@link ValueFormat#decoder}, puts {@link #column} where the schema names them, passes
 * its other columns through {@link #kept}, and calls {@link #decode} for each batch. Each call fills the columns again;
 * they point into the given memory until the next call.
 */
public abstract class ValueDecoder {
  /** The header of a record that may name the schema of its value. */
  public static final String SCHEMA_HEADER = SchemaKey.HEADER;

  /** The columns of the value. */
  protected StructColumn root;

  /** All columns that point into received bytes. */
  protected final ValueColumns columns = new ValueColumns();

  /** The memory of the batch being decoded: an array, or null for addresses. */
  protected Object base;

  /** What names the schema of a framed value. */
  protected SchemaKey schemaKey;

  private final ErrorMode mode;
  private final boolean framed;
  private final boolean guids;
  private final boolean flat;
  private final BytesColumn errors = columns.keep(new BytesColumn(DataTypes.StringType, false));
  private int lastSize;
  private int lastWord;
  private int[] selection;
  private int rows;
  private int kept;

  ValueDecoder(ValueFormat format) {
    mode = format.mode();
    framed = format.isFramed();
    guids = format.isRegistered();
    flat = format.isFlat();
  }

  /**
   * Returns the decoder for options, with every column; null without {@code value.format}.
   *
   * @throws IllegalArgumentException if an option is invalid
   */
  public static ValueDecoder forOptions(Map<String, String> options) {
    ValueFormat format = ValueFormat.forOptions(options);
    return format == null ? null : format.decoder(format.tableSchema(new StructType()));
  }

  /** The type of the value, as far as it is shown. */
  public final StructType schema() {
    return (StructType) root.dataType();
  }

  /**
   * Decodes a batch.
   *
   * @param memory the array that addresses count in ({@link Platform#BYTE_ARRAY_OFFSET} is its begin), or null for
   *     addresses of memory outside the heap
   * @param origin what {@code offsets} count from
   * @param offsets where each value begins
   * @param lengths bytes of each value, below 0 for null
   * @param n how many
   * @return how many rows the batch has: fewer than {@code n} if {@code mode} is DROPMALFORMED
   * @throws BadValueException in the mode FAILFAST, for a value that does not decode
   */
  public final int decode(Object memory, long origin, int[] offsets, int[] lengths, int n) {
    return decode(memory, origin, offsets, lengths, n, null, null);
  }

  /**
   * Decodes a batch whose schemas may be named by headers.
   *
   * @param keyAt where the header of each record begins that names the schema of its value; null: there are none
   * @param keyLength its bytes; below 0 for a record without one
   */
  public final int decode(Object memory, long origin, int[] offsets, int[] lengths, int n, int[] keyAt,
      int[] keyLength) {
    base = memory;
    columns.attach(memory, origin);
    root.clear(0);
    errors.clear(0);
    root.ensure(n);
    rows = n;
    kept = 0;
    if (mode == ErrorMode.DROPMALFORMED && (selection == null || selection.length < n)) {
      selection = new int[n];
    }
    for (int row = 0; row < n; row++) {
      boolean good = true;
      if (lengths[row] >= 0) {
        try {
          long at = origin + offsets[row];
          if (keyLength != null && keyLength[row] >= 0) {
            key(origin + keyAt[row], origin + keyAt[row] + keyLength[row]);
            record(row, at, at + lengths[row]);
          } else {
            value(row, at, at + lengths[row]);
          }
        } catch (BadValueException e) {
          good = false;
          bad(row, e);
        }
      }
      if (good && selection != null) {
        selection[kept++] = row;
      }
    }
    return selection == null ? n : kept;
  }

  private void value(int row, long at, long end) {
    if (framed) {
      at = key(at, end);
    }
    record(row, at, end);
  }

  /** Reads what names the schema; returns the place after it. */
  private long key(long at, long end) {
    int size = SchemaKey.size(base, at, end);
    if (size == 0 || size == SchemaKey.GUID_BYTES && !guids) {
      throw bad("the value lacks Confluent's framing: a zero byte and the schema's id");
    }
    if (schemaKey == null || size != lastSize || Platform.getInt(base, at + 1) != lastWord
        || size == SchemaKey.GUID_BYTES) {
      schemaKey = SchemaKey.read(base, at, size);
      lastSize = size;
      lastWord = Platform.getInt(base, at + 1);
    }
    return payload(at + size, end);
  }

  /** The start of the value after what names its schema. */
  protected long payload(long at, long end) {
    return at;
  }

  /**
   * Decodes one value into the columns' row.
   *
   * @throws BadValueException made by {@link #bad(String)}
   */
  protected abstract void record(int row, long at, long end);

  private void bad(int row, BadValueException why) {
    root.clear(row);
    if (mode == ErrorMode.FAILFAST) {
      throw new BadValueException(
          row, why.getMessage() + ". To get null, and this reason in the column " + ValueFormat.ERROR_COLUMN
              + ", set option mode=PERMISSIVE");
    }
    byte[] text = why.getMessage().getBytes(java.nio.charset.StandardCharsets.UTF_8);
    errors.copy(row, text, text.length);
  }

  /** The exception that decoders throw for a bad value. */
  protected static BadValueException bad(String message) {
    return new BadValueException(-1, message);
  }

  /**
   * The column for a name of {@link ValueFormat#tableSchema}, the same for all batches; null if the name is not the
   * value's.
   */
  public final ColumnVector column(String name) {
    if (name.equals(ValueFormat.ERROR_COLUMN)) {
      return kept(errors);
    }
    if (!flat) {
      return name.equals(ValueFormat.VALUE_COLUMN) ? kept(root) : null;
    }
    int at = ValueColumns.place(root.dataType(), name);
    return at < 0 ? null : kept(root.shown[at]);
  }

  /** A column of the reader's own, without the rows that the mode DROPMALFORMED drops. */
  public final ColumnVector kept(ColumnVector column) {
    return mode == ErrorMode.DROPMALFORMED ? new SelectedColumn(column, this) : column;
  }

  /** The index in the batch of a row that was kept. */
  public final int keptRow(int row) {
    return selection == null ? row : selection[row];
  }

  /** Rows of the batch. */
  public final int keptRows() {
    return selection == null ? rows : kept;
  }

  /** Text for messages: at most 40 bytes of a value. */
  protected final String excerpt(long at, long end) {
    byte[] bytes = new byte[(int) Math.min(40, Math.max(0, end - at))];
    Platform.copyMemory(base, at, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    return UTF8String.fromBytes(bytes).toString() + (end - at > bytes.length ? "…" : "");
  }

  /** Doubles an array's length. */
  static byte[] doubled(byte[] bytes, int least) {
    return Arrays.copyOf(bytes, Math.max(least, bytes.length * 2));
  }
}
