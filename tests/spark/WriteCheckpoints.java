import bowstring.spark.LocalCheckpointFileManager;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Writes checkpoint files until it is killed: one after the other, and one that is overwritten all the time. */
public final class WriteCheckpoints {
  private WriteCheckpoints() {}

  public static void main(String[] arguments) throws Exception {
    Path folder = new Path(arguments[0]);
    LocalCheckpointFileManager files = new LocalCheckpointFileManager(folder, new Configuration());
    files.createCheckpointDirectory();
    System.out.println("begun");
    for (int number = Integer.parseInt(arguments[1]); ; number++) {
      byte[] content = String.format("%08d", number).repeat(2000).getBytes(StandardCharsets.US_ASCII);
      for (String name : new String[] {"latest", Integer.toString(number)}) {
        try (OutputStream out = files.createAtomic(new Path(folder, name), name.equals("latest"))) {
          out.write(content);
        }
      }
      System.out.println(number);
      System.out.flush();
    }
  }
}
