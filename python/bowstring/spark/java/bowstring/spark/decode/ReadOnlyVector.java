package bowstring.spark.decode;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** A column vector without nulls and values of any type; subclasses override what they hold. */
public abstract class ReadOnlyVector extends ColumnVector {
  protected ReadOnlyVector(DataType type) {
    super(type);
  }

  @Override
  public void close() {
    // the memory belongs to the reader
  }

  @Override
  public boolean hasNull() {
    return false;
  }

  @Override
  public int numNulls() {
    return 0;
  }

  @Override
  public boolean isNullAt(int row) {
    return false;
  }

  private UnsupportedOperationException notOfThisType() {
    return new UnsupportedOperationException("this column is of type " + type.simpleString());
  }

  @Override
  public boolean getBoolean(int row) {
    throw notOfThisType();
  }

  @Override
  public byte getByte(int row) {
    throw notOfThisType();
  }

  @Override
  public short getShort(int row) {
    throw notOfThisType();
  }

  @Override
  public int getInt(int row) {
    throw notOfThisType();
  }

  @Override
  public long getLong(int row) {
    throw notOfThisType();
  }

  @Override
  public float getFloat(int row) {
    throw notOfThisType();
  }

  @Override
  public double getDouble(int row) {
    throw notOfThisType();
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw notOfThisType();
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw notOfThisType();
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw notOfThisType();
  }

  @Override
  public UTF8String getUTF8String(int row) {
    throw notOfThisType();
  }

  @Override
  public byte[] getBinary(int row) {
    throw notOfThisType();
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw notOfThisType();
  }
}
