package bowstring.spark.values;

import java.util.Arrays;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;

/** Booleans, numbers, dates, timestamps, and decimals of up to 18 digits: a long for each row. */
final class FixedColumn extends ValueColumn {
  private long[] words = new long[present.length];

  FixedColumn(DataType type, boolean zeroed) {
    super(type, zeroed);
  }

  @Override
  protected void grow(int rows) {
    words = Arrays.copyOf(words, rows);
  }

  /** Sets a value; a float or double as its bits, a decimal as its unscaled value. */
  void set(int row, long word) {
    mark(row);
    words[row] = word;
  }

  private long word(int row) {
    return isSet(row) ? words[row] : 0;
  }

  @Override
  public boolean getBoolean(int row) {
    return word(row) != 0;
  }

  @Override
  public byte getByte(int row) {
    return (byte) word(row);
  }

  @Override
  public short getShort(int row) {
    return (short) word(row);
  }

  @Override
  public int getInt(int row) {
    return (int) word(row);
  }

  @Override
  public long getLong(int row) {
    return word(row);
  }

  @Override
  public float getFloat(int row) {
    return Float.intBitsToFloat((int) word(row));
  }

  @Override
  public double getDouble(int row) {
    return Double.longBitsToDouble(word(row));
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return Decimal.createUnsafe(word(row), precision, scale);
  }
}
