package bowstring.spark.read;

import bowstring.spark.checkpoint.Managers;
import bowstring.spark.wire.TopicPartition;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Stores the start of a streaming query in its checkpoint: file 0 of the source's folder.
 *
 * <p>So a query that stopped before its first batch was complete starts again there, and not at the present "latest".
 * The file has the format of Spark's Kafka source (a zero byte, a line with the version, the offsets' JSON): either
 * source continues from the other's.
 */
final class InitialOffsets {
  private static final String VERSION = "v1";

  private final Path folder;
  private final Path file;
  private final Configuration hadoop;

  InitialOffsets(String folder) {
    this.folder = new Path(folder);
    this.file = new Path(folder, "0");
    this.hadoop = SparkSession.active().sessionState().newHadoopConf();
  }

  /** Returns the offsets in the checkpoint, or those of {@code compute}, which it then stores. */
  Map<TopicPartition, Long> getOrWrite(Supplier<Map<TopicPartition, Long>> compute) {
    try {
      CheckpointFileManager files = Managers.ofSource(folder, hadoop);
      if (files.exists(file)) {
        return read(files);
      }
      Map<TopicPartition, Long> offsets = compute.get();
      if (!files.exists(folder)) {
        files.mkdirs(folder);
      }
      FSDataOutputStream out = files.createAtomic(file, false);
      out.write(0);
      out.write((VERSION + "\n" + OffsetJson.write(offsets)).getBytes(StandardCharsets.UTF_8));
      out.close();
      return offsets;
    } catch (IOException failed) {
      throw new UncheckedIOException("The checkpoint file " + file + " cannot be used: " + failed.getMessage(), failed);
    }
  }

  private Map<TopicPartition, Long> read(CheckpointFileManager files) throws IOException {
    String content;
    try (FSDataInputStream in = files.open(file)) {
      content = new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
    String text = content.startsWith("\0") ? content.substring(1) : content;
    if (text.startsWith("v")) {
      int line = text.indexOf('\n');
      String version = line < 0 ? text : text.substring(0, line);
      if (line < 0 || !version.equals(VERSION)) {
        throw new IOException("its version is " + version + ", this source reads " + VERSION
            + ": it was written by a newer Spark");
      }
      text = text.substring(line + 1);
    }
    return OffsetJson.offsets(text);
  }
}
