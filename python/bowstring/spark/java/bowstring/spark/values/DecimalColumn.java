package bowstring.spark.values;

import java.math.BigDecimal;
import java.util.Arrays;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;

/** Decimals of more than 18 digits. */
final class DecimalColumn extends ValueColumn {
  private BigDecimal[] values = new BigDecimal[present.length];

  DecimalColumn(DataType type, boolean zeroed) {
    super(type, zeroed);
  }

  @Override
  protected void grow(int rows) {
    values = Arrays.copyOf(values, rows);
  }

  void set(int row, BigDecimal value) {
    mark(row);
    values[row] = value;
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return Decimal.apply(isSet(row) ? values[row] : BigDecimal.ZERO, precision, scale);
  }
}
