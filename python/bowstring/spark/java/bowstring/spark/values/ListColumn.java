package bowstring.spark.values;

import java.util.Arrays;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;

/** Arrays, and maps as arrays of keys and arrays of values. Elements always belong to the last row that was set. */
final class ListColumn extends ValueColumn {
  /** Keys of a map; null for an array. */
  final ValueColumn keys;

  final ValueColumn elements;
  private int[] starts = new int[present.length];
  private int[] counts = new int[present.length];
  private int used;

  ListColumn(DataType type, boolean zeroed, ValueColumn keys, ValueColumn elements) {
    super(type, zeroed);
    this.keys = keys;
    this.elements = elements;
  }

  @Override
  protected void grow(int rows) {
    starts = Arrays.copyOf(starts, rows);
    counts = Arrays.copyOf(counts, rows);
  }

  @Override
  void clear(int row) {
    for (int at = row; at < touched; at++) {
      if (present[at]) {
        used = starts[at];
        elements.clear(used);
        if (keys != null) {
          keys.clear(used);
        }
        break;
      }
    }
    super.clear(row);
  }

  /** Begins the row's list, empty, unless it has already begun. */
  void begin(int row) {
    if (!isSet(row)) {
      mark(row);
      starts[row] = used;
      counts[row] = 0;
    }
  }

  /** Elements of a row that was begun. */
  int count(int row) {
    return counts[row];
  }

  /** Adds an element to the last list; returns its row in {@link #elements} and {@link #keys}. */
  int add(int row) {
    counts[row]++;
    return used++;
  }

  @Override
  public ColumnarArray getArray(int row) {
    return isSet(row) ? new ColumnarArray(elements, starts[row], counts[row]) : new ColumnarArray(elements, 0, 0);
  }

  @Override
  public ColumnarMap getMap(int row) {
    return isSet(row)
        ? new ColumnarMap(keys, elements, starts[row], counts[row])
        : new ColumnarMap(keys, elements, 0, 0);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return keys == null || ordinal == 1 ? elements : keys;
  }
}
