import bowstring.spark.decode.AbortedTransactions;
import bowstring.spark.decode.RecordColumns;
import bowstring.spark.decode.RecordDecoder;
import bowstring.spark.decode.RecordVectors;
import bowstring.spark.wire.DirectMemory;
import bowstring.spark.wire.WireException;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;

/**
 * Decodes the cases on standard input and writes down what it saw. A case: bits of the columns wanted, start, end, length,
 * bytes. An answer: -1 for records that are refused, else the rows, each as the wanted columns in order.
 */
public final class DecodeProbe {
  private static final List<String> COLUMNS =
      List.of("offset", "timestamp", "timestampType", "key", "value", "headers");

  private DecodeProbe() {}

  /** The argument: what a compressed batch may become; then standard error has why a case was refused. */
  public static void main(String[] args) throws IOException {
    int mostBatchBytes = args.length == 0 ? 128 << 20 : Integer.parseInt(args[0]);
    DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
    DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
    for (int bits = in.read(); bits >= 0; bits = in.read()) {
      long start = in.readLong();
      long end = in.readLong();
      byte[] data = new byte[in.readInt()];
      in.readFully(data);
      boolean slack = (bits & 0x40) != 0;
      ByteBuffer region = slack ? DirectMemory.allocate(data.length, "a case") : ByteBuffer.allocateDirect(data.length);
      region.put(0, data);
      Set<String> wanted = new TreeSet<>();
      for (int i = 0; i < COLUMNS.size(); i++) {
        if ((bits >> i & 1) != 0) {
          wanted.add(COLUMNS.get(i));
        }
      }
      try {
        out.write(answer(region, data.length, slack, wanted, start, end, mostBatchBytes));
      } catch (WireException refused) {
        out.writeInt(-1);
        if (args.length > 0) {
          System.err.println(refused.getMessage());
        }
      }
      DirectMemory.free(region);
    }
    out.flush();
  }

  private static byte[] answer(ByteBuffer region, int length, boolean slack, Set<String> wanted, long start, long end,
      int mostBatchBytes) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream rows = new DataOutputStream(bytes);
    RecordColumns columns = new RecordColumns(wanted);
    int n = 0;
    try (RecordDecoder decoder = new RecordDecoder(columns, true, false, Long.MIN_VALUE, mostBatchBytes)) {
      decoder.begin(region, 0, length, slack, AbortedTransactions.none());
      while (decoder.next(start, end)) {
        n += columns.rows();
        for (int row = 0; row < columns.rows(); row++) {
          for (String name : COLUMNS) {
            if (wanted.contains(name)) {
              write(rows, name, RecordVectors.of(name, columns, "t", 0), row);
            }
          }
        }
      }
    }
    return ByteBuffer.allocate(4 + bytes.size()).putInt(n).put(bytes.toByteArray()).array();
  }

  private static void write(DataOutputStream out, String name, ColumnVector vector, int row) throws IOException {
    switch (name) {
      case "offset", "timestamp" -> out.writeLong(vector.getLong(row));
      case "timestampType" -> out.writeInt(vector.getInt(row));
      case "headers" -> {
        ColumnarArray headers = vector.isNullAt(row) ? null : vector.getArray(row);
        out.writeInt(headers == null ? 0 : headers.numElements());
        for (int i = 0; headers != null && i < headers.numElements(); i++) {
          write(out, headers.getStruct(i, 2).getUTF8String(0).getBytes());
          write(out, headers.getStruct(i, 2).isNullAt(1) ? null : headers.getStruct(i, 2).getBinary(1));
        }
      }
      default -> write(out, vector.isNullAt(row) ? null : vector.getBinary(row));
    }
  }

  private static void write(DataOutputStream out, byte[] bytes) throws IOException {
    out.writeInt(bytes == null ? -1 : bytes.length);
    if (bytes != null) {
      out.write(bytes);
    }
  }
}
