package bowstring.spark.local;

import java.io.Closeable;
import java.io.IOException;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A broker's segment file, open and share-locked, so that a broker that starts after a crash does not truncate mapped
 * bytes (docs/internals/local-reads.md): it leaves a locked file unchanged and makes a shorter copy instead.
 *
 * <p>Java's locks belong to the process: a second one on the same file is refused, and closing any descriptor of the
 * file drops all of them. So the tasks of a process share one channel per file, which the last of them closes. A
 * mapping does not keep the lock, so a holder must close only when nothing reads the mapping any more.
 */
public final class SegmentFile {
  private static final Logger LOG = LoggerFactory.getLogger(SegmentFile.class);
  private static final Map<Identity, SegmentFile> OPEN = new HashMap<>();

  private record Identity(long device, long inode) {}

  private final Identity identity;
  private final FileChannel channel;
  private int holders;

  private SegmentFile(Identity identity, FileChannel channel) {
    this.identity = identity;
    this.channel = channel;
  }

  /** One holder of a file; may be closed twice. */
  public static final class Hold implements Closeable {
    private SegmentFile file;

    private Hold(SegmentFile file) {
      this.file = file;
    }

    /** Maps a part of the file, read-only; it may be read until this is closed. */
    public MappedByteBuffer map(long position, long size) throws IOException {
      return file.channel.map(FileChannel.MapMode.READ_ONLY, position, size);
    }

    @Override
    public void close() throws IOException {
      SegmentFile released = file;
      file = null;
      if (released != null) {
        release(released);
      }
    }
  }

  /**
   * Opens the file that the broker names.
   *
   * @return null if another file has its path by now, or it is shorter than the broker said
   */
  public static Hold open(LocalSegments.Segment segment) throws IOException {
    Identity wanted = new Identity(segment.device(), segment.inode());
    Path path = Path.of(segment.path());
    synchronized (OPEN) {
      SegmentFile file = OPEN.get(wanted);
      if (file == null) {
        // Checked before opening, too: opening and closing a file that others hold would drop their lock.
        if (!wanted.equals(identify(path))) {
          return null;
        }
        file = new SegmentFile(wanted, FileChannel.open(path, StandardOpenOption.READ));
        OPEN.put(wanted, file);
        file.lock(path);
      }
      file.holders++;
      Hold hold = new Hold(file);
      boolean usable = false;
      try {
        // The size after locking: from now on nobody truncates it.
        usable = wanted.equals(identify(path)) && file.channel.size() >= segment.end();
      } finally {
        if (!usable) {
          hold.close();
        }
      }
      return usable ? hold : null;
    }
  }

  private static Identity identify(Path path) throws IOException {
    try {
      Map<String, Object> is = Files.readAttributes(path, "unix:dev,ino");
      return new Identity(((Number) is.get("dev")).longValue(), ((Number) is.get("ino")).longValue());
    } catch (NoSuchFileException renamed) {
      LOG.debug("{} no longer exists", path);
      return null;
    }
  }

  private void lock(Path path) {
    try {
      if (channel.tryLock(0, Long.MAX_VALUE, true) == null) {
        LOG.warn("{} cannot be locked because another process has locked it: if the broker crashes while this task "
            + "reads the file, the task may fail", path);
      }
    } catch (IOException unknown) {
      // without locks, mapped files may be truncated after a crash
      LOG.debug("{} cannot be locked", path, unknown);
    }
  }

  private static void release(SegmentFile file) throws IOException {
    synchronized (OPEN) {
      if (--file.holders == 0) {
        OPEN.remove(file.identity);
        file.channel.close();
      }
    }
  }
}
