package bowstring.spark.checkpoint;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/** Who keeps a checkpoint: this package where the path is local, else whom Spark would have taken. */
public final class Managers {
  /** Spark's setting that names the class of the checkpoint file manager. */
  public static final String CLASS_SETTING = "spark.sql.streaming.checkpointFileManagerClass";

  private Managers() {}

  /** The manager of a checkpoint directory. */
  public static CheckpointFileManager of(Path root, Configuration configuration) {
    if (isLocal(root, configuration)) {
      try {
        return new LocalFiles(root, configuration);
      } catch (IOException failure) {
        throw Failures.as(failure);
      }
    }
    Configuration others = new Configuration(configuration);
    others.unset(CLASS_SETTING);
    return CheckpointFileManager.create(root, others);
  }

  private static boolean isLocal(Path root, Configuration configuration) {
    String scheme = root.toUri().getScheme();
    if (scheme == null) {
      scheme = FileSystem.getDefaultUri(configuration).getScheme();
    }
    return "file".equals(scheme);
  }
}
