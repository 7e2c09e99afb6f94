package bowstring.spark.values;

import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Another column without the rows that DROPMALFORMED leaves out. */
final class SelectedColumn extends ColumnVector {
  private final ColumnVector all;
  private final ValueDecoder decoder;

  SelectedColumn(ColumnVector all, ValueDecoder decoder) {
    super(all.dataType());
    this.all = all;
    this.decoder = decoder;
  }

  private int at(int row) {
    return decoder.keptRow(row);
  }

  @Override
  public void close() {
    all.close();
  }

  @Override
  public boolean hasNull() {
    return all.hasNull();
  }

  @Override
  public int numNulls() {
    int nulls = 0;
    for (int row = 0; row < decoder.keptRows(); row++) {
      if (isNullAt(row)) {
        nulls++;
      }
    }
    return nulls;
  }

  @Override
  public boolean isNullAt(int row) {
    return all.isNullAt(at(row));
  }

  @Override
  public boolean getBoolean(int row) {
    return all.getBoolean(at(row));
  }

  @Override
  public byte getByte(int row) {
    return all.getByte(at(row));
  }

  @Override
  public short getShort(int row) {
    return all.getShort(at(row));
  }

  @Override
  public int getInt(int row) {
    return all.getInt(at(row));
  }

  @Override
  public long getLong(int row) {
    return all.getLong(at(row));
  }

  @Override
  public float getFloat(int row) {
    return all.getFloat(at(row));
  }

  @Override
  public double getDouble(int row) {
    return all.getDouble(at(row));
  }

  @Override
  public ColumnarArray getArray(int row) {
    return all.getArray(at(row));
  }

  @Override
  public ColumnarMap getMap(int row) {
    return all.getMap(at(row));
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return all.getDecimal(at(row), precision, scale);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    return all.getUTF8String(at(row));
  }

  @Override
  public byte[] getBinary(int row) {
    return all.getBinary(at(row));
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    // Spark asks for a struct's fields by the struct's own row number.
    return new SelectedColumn(all.getChild(ordinal), decoder);
  }
}
