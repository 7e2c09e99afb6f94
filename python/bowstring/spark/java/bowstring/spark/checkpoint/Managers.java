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

  /**
   * The manager of a source's own files in a checkpoint: the one that Spark's settings name; where they name none, this
   * package for local paths, since one file of Hadoop's takes as long as all else that a query's start costs here.
   */
  public static CheckpointFileManager ofSource(Path root, Configuration configuration) {
    return configuration.get(CLASS_SETTING) == null ? of(root, configuration)
        : CheckpointFileManager.create(root, configuration);
  }

  private static boolean isLocal(Path root, Configuration configuration) {
    String scheme = root.toUri().getScheme();
    if (scheme == null) {
      scheme = FileSystem.getDefaultUri(configuration).getScheme();
    }
    return "file".equals(scheme);
  }
}
