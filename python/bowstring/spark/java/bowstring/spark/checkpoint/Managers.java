package bowstring.spark.checkpoint;

import bowstring.spark.LocalCheckpointFileManager;
import java.io.IOException;
import java.net.URL;
import java.nio.file.Files;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Chooses the manager of a checkpoint: this package for local paths, otherwise the one that Spark would choose. */
public final class Managers {
  /** Spark's setting that names the class of the checkpoint file manager. */
  public static final String CLASS_SETTING = "spark.sql.streaming.checkpointFileManagerClass";

  private static final String OURS = LocalCheckpointFileManager.class.getName();

  private static final Logger LOG = LoggerFactory.getLogger(Managers.class);

  private Managers() {}

  /**
   * Lets {@link LocalCheckpointFileManager} store the checkpoints of the active session's streams, unless the session
   * names a manager or got this jar so late (ADD JAR) that threads of other queries do not find the class.
   *
   * <p>A query cannot choose it for itself: Spark opens the log of its offsets before it builds its sources.
   */
  public static void serve() {
    SparkSession session = SparkSession.getActiveSession().getOrElse(() -> null);
    if (session == null || session.conf().contains(CLASS_SETTING) || !isThereForAll(session)) {
      return;
    }
    session.conf().set(CLASS_SETTING, OURS);
    LOG.info("{} writes the checkpoints of this session's streams on local file systems", OURS);
  }

  /** Whether the jar was present when Spark started: in its settings, or on the class path of the JVM. */
  private static boolean isThereForAll(SparkSession session) {
    if (Managers.class.getClassLoader() == ClassLoader.getSystemClassLoader()) {
      return true;
    }
    URL jar = Managers.class.getProtectionDomain().getCodeSource().getLocation();
    String name = jar.getPath().substring(jar.getPath().lastIndexOf('/') + 1);
    return Arrays.stream(session.conf().get("spark.jars", "").split(","))
        .anyMatch(each -> each.substring(each.lastIndexOf('/') + 1).equals(name));
  }

  /** The manager of a checkpoint directory. */
  public static CheckpointFileManager of(Path root, Configuration configuration) {
    if (isLocal(root, configuration) && hasHadoopsOwnFiles(configuration) && canSync(root)) {
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
   * The manager of a source's own files in a checkpoint: the one in Spark's settings; by default this package for local
   * paths, because one file of Hadoop's takes as long as the rest of a query's start here.
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

  /** A user who configured another class for local files has a reason that is unknown here. */
  private static boolean hasHadoopsOwnFiles(Configuration configuration) {
    String own = LocalFileSystem.class.getName();
    return configuration.get("fs.file.impl", own).equals(own);
  }

  /** Some mounted network file systems cannot sync a directory. */
  private static boolean canSync(Path root) {
    java.nio.file.Path folder = java.nio.file.Path.of(root.toUri().getPath()).toAbsolutePath();
    while (folder != null && !Files.isDirectory(folder)) {
      folder = folder.getParent();
    }
    try {
      AtomicFile.syncDirectory(folder);
      return true;
    } catch (IOException | RuntimeException cannot) {
      LOG.info("Spark's own manager writes {}: the directory {} cannot be synced ({})", root, folder, cannot.toString());
      return false;
    }
  }
}
