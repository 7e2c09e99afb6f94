package bowstring.spark.decode;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Spark's view of {@link RecordColumns}: one vector object per column for the life of a reader. The vectors follow the
 * columns from batch to batch; getters read the bytes only when Spark asks for a row's value.
 */
public final class RecordVectors {
  /** The type of the headers column, as in Spark's Kafka source. */
  public static final ArrayType HEADERS_TYPE = DataTypes.createArrayType(
      new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType));

  private RecordVectors() {}

  /** The vector of a column by its name in the source's schema. */
  public static ColumnVector of(String name, RecordColumns columns, String topic, int partition) {
    return switch (name) {
      case "key" -> new KeyVector(columns);
      case "value" -> new ValueVector(columns);
      case "offset" -> new OffsetVector(columns);
      case "timestamp" -> new TimestampVector(columns);
      case "timestampType" -> new TimestampTypeVector(columns);
      case "headers" -> new HeadersVector(columns);
      case "topic" -> new TopicVector(topic);
      case "partition" -> new PartitionVector(partition);
      default -> throw new IllegalArgumentException("the source has no column '" + name + "'");
    };
  }

  private static byte[] copy(long address, int length) {
    if (length < 0) {
      return null;
    }
    byte[] bytes = new byte[length];
    Platform.copyMemory(null, address, bytes, Platform.BYTE_ARRAY_OFFSET, length);
    return bytes;
  }

  private static final class KeyVector extends ReadOnlyVector {
    private final RecordColumns columns;

    KeyVector(RecordColumns columns) {
      super(DataTypes.BinaryType);
      this.columns = columns;
    }

    @Override
    public boolean hasNull() {
      return columns.nullKeys > 0;
    }

    @Override
    public int numNulls() {
      return columns.nullKeys;
    }

    @Override
    public boolean isNullAt(int row) {
      return columns.keyLength[row] < 0;
    }

    @Override
    public byte[] getBinary(int row) {
      return copy(columns.base + columns.keyAt[row], columns.keyLength[row]);
    }
  }

  private static final class ValueVector extends ReadOnlyVector {
    private final RecordColumns columns;

    ValueVector(RecordColumns columns) {
      super(DataTypes.BinaryType);
      this.columns = columns;
    }

    @Override
    public boolean hasNull() {
      return columns.nullValues > 0;
    }

    @Override
    public int numNulls() {
      return columns.nullValues;
    }

    @Override
    public boolean isNullAt(int row) {
      return columns.valueLength[row] < 0;
    }

    @Override
    public byte[] getBinary(int row) {
      return copy(columns.base + columns.valueAt[row], columns.valueLength[row]);
    }
  }

  private static final class OffsetVector extends ReadOnlyVector {
    private final RecordColumns columns;

    OffsetVector(RecordColumns columns) {
      super(DataTypes.LongType);
      this.columns = columns;
    }

    @Override
    public long getLong(int row) {
      return columns.offsets[row];
    }
  }

  private static final class TimestampVector extends ReadOnlyVector {
    private final RecordColumns columns;

    TimestampVector(RecordColumns columns) {
      super(DataTypes.TimestampType);
      this.columns = columns;
    }

    @Override
    public long getLong(int row) {
      return columns.timestampsMicros[row];
    }
  }

  private static final class TimestampTypeVector extends ReadOnlyVector {
    private final RecordColumns columns;

    TimestampTypeVector(RecordColumns columns) {
      super(DataTypes.IntegerType);
      this.columns = columns;
    }

    @Override
    public int getInt(int row) {
      return columns.timestampType;
    }
  }

  private static final class TopicVector extends ReadOnlyVector {
    private final UTF8String topic;

    TopicVector(String topic) {
      super(DataTypes.StringType);
      this.topic = UTF8String.fromString(topic);
    }

    @Override
    public UTF8String getUTF8String(int row) {
      return topic;
    }
  }

  private static final class PartitionVector extends ReadOnlyVector {
    private final int partition;

    PartitionVector(int partition) {
      super(DataTypes.IntegerType);
      this.partition = partition;
    }

    @Override
    public int getInt(int row) {
      return partition;
    }
  }

  /** A record without headers has null here, as in Spark's Kafka source. */
  private static final class HeadersVector extends ReadOnlyVector {
    private final RecordColumns columns;
    private final HeaderStructVector structs;

    HeadersVector(RecordColumns columns) {
      super(HEADERS_TYPE);
      this.columns = columns;
      this.structs = new HeaderStructVector(columns, HEADERS_TYPE.elementType());
    }

    @Override
    public boolean hasNull() {
      return columns.headers.nullRecords > 0;
    }

    @Override
    public int numNulls() {
      return columns.headers.nullRecords;
    }

    @Override
    public boolean isNullAt(int row) {
      return columns.headers.count[row] == 0;
    }

    @Override
    public ColumnarArray getArray(int row) {
      return new ColumnarArray(structs, columns.headers.first[row], columns.headers.count[row]);
    }
  }

  private static final class HeaderStructVector extends ReadOnlyVector {
    private final HeaderKeyVector keys;
    private final HeaderValueVector values;

    HeaderStructVector(RecordColumns columns, DataType type) {
      super(type);
      keys = new HeaderKeyVector(columns);
      values = new HeaderValueVector(columns);
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return ordinal == 0 ? keys : values;
    }
  }

  private static final class HeaderKeyVector extends ReadOnlyVector {
    private final RecordColumns columns;

    HeaderKeyVector(RecordColumns columns) {
      super(DataTypes.StringType);
      this.columns = columns;
    }

    @Override
    public UTF8String getUTF8String(int header) {
      HeaderColumns headers = columns.headers;
      return UTF8String.fromBytes(copy(columns.base + headers.keyAt[header], headers.keyLength[header]));
    }
  }

  private static final class HeaderValueVector extends ReadOnlyVector {
    private final RecordColumns columns;

    HeaderValueVector(RecordColumns columns) {
      super(DataTypes.BinaryType);
      this.columns = columns;
    }

    @Override
    public boolean hasNull() {
      return true; // presence is not counted; isNullAt returns it
    }

    @Override
    public boolean isNullAt(int header) {
      return columns.headers.valueLength[header] < 0;
    }

    @Override
    public byte[] getBinary(int header) {
      HeaderColumns headers = columns.headers;
      return copy(columns.base + headers.valueAt[header], headers.valueLength[header]);
    }
  }
}
