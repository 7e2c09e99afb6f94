package bowstring.spark.values;

import java.util.Arrays;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column that decoders fill: a row is null until it is set, and rows are set in ascending order.
 *
 * <p>A missing row costs nothing. {@link #clear} removes rows from the end, so that a record that turns out to be bad
 * leaves nothing behind. The arrays are reused from batch to batch.
 */
abstract class ValueColumn extends ColumnVector {
  private static final int FIRST_ROWS = 1024;

  /** Which rows have a value. */
  protected boolean[] present = new boolean[FIRST_ROWS];

  /** Rows that are not set hold the type's zero value instead of null (protobuf's implicit presence). */
  private final boolean zeroed;

  /** One past the last row that may be set. */
  protected int touched;

  ValueColumn(DataType type, boolean zeroed) {
    super(type);
    this.zeroed = zeroed;
  }

  /** Makes room for rows below {@code rows}. */
  void ensure(int rows) {
    if (rows > present.length) {
      int grown = Math.max(rows, present.length + (present.length >> 1));
      present = Arrays.copyOf(present, grown);
      grow(grown);
    }
  }

  /** Enlarges the arrays that hold values. */
  protected abstract void grow(int rows);

  /** Removes rows from {@code row} on. */
  void clear(int row) {
    if (touched > row) {
      Arrays.fill(present, row, touched, false);
      touched = row;
    }
  }

  /** Marks a row as set and makes room for its value. */
  protected final void mark(int row) {
    if (row >= present.length) {
      ensure(row + 1);
    }
    present[row] = true;
    if (row >= touched) {
      touched = row + 1;
    }
  }

  protected final boolean isSet(int row) {
    return row < touched && present[row];
  }

  @Override
  public boolean isNullAt(int row) {
    return !zeroed && !(row < touched && present[row]);
  }

  @Override
  public boolean hasNull() {
    return !zeroed;
  }

  @Override
  public int numNulls() {
    int nulls = 0;
    if (!zeroed) {
      for (int row = 0; row < touched; row++) {
        if (!present[row]) {
          nulls++;
        }
      }
    }
    return nulls;
  }

  @Override
  public void close() {}

  private UnsupportedOperationException not(String what) {
    return new UnsupportedOperationException("a column of " + dataType().simpleString() + " has no " + what);
  }

  @Override
  public boolean getBoolean(int row) {
    throw not("booleans");
  }

  @Override
  public byte getByte(int row) {
    throw not("bytes");
  }

  @Override
  public short getShort(int row) {
    throw not("shorts");
  }

  @Override
  public int getInt(int row) {
    throw not("ints");
  }

  @Override
  public long getLong(int row) {
    throw not("longs");
  }

  @Override
  public float getFloat(int row) {
    throw not("floats");
  }

  @Override
  public double getDouble(int row) {
    throw not("doubles");
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw not("arrays");
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw not("maps");
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw not("decimals");
  }

  @Override
  public UTF8String getUTF8String(int row) {
    throw not("strings");
  }

  @Override
  public byte[] getBinary(int row) {
    throw not("binaries");
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw not("children");
  }
}
