package bowstring.spark.values;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Structs. A field that is not needed may be decoded to check it; it is not shown. */
final class StructColumn extends ValueColumn {
  /** The fields Spark sees, in the order of its type. */
  final ValueColumn[] shown;

  /** All that are decoded. */
  final ValueColumn[] decoded;

  StructColumn(DataType type, ValueColumn[] shown, ValueColumn[] decoded) {
    super(type, false);
    this.shown = shown;
    this.decoded = decoded;
  }

  @Override
  protected void grow(int rows) {
    // Fields grow when they are set.
  }

  @Override
  void clear(int row) {
    super.clear(row);
    for (ValueColumn field : decoded) {
      field.clear(row);
    }
  }

  void set(int row) {
    mark(row);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return shown[ordinal];
  }
}
