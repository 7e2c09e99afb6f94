package bowstring.spark.checkpoint;

import java.io.BufferedOutputStream;
import java.io.FileNotFoundException;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.UUID;

/**
 * A file that appears complete and on the medium, or not at all.
 *
 * <p>The bytes go to a hidden file beside it, which is synced and then renamed; afterwards the directory is synced. A
 * process that is killed meanwhile leaves at most the hidden file, named like Spark's own.
 */
final class AtomicFile extends FilterOutputStream {
  private static final int BUFFER_BYTES = 64 * 1024;

  private final Path target;
  private final Path hidden;
  private final FileChannel channel;
  private final boolean overwrite;
  private boolean over;

  private AtomicFile(Path target, Path hidden, FileChannel channel, boolean overwrite) {
    super(new BufferedOutputStream(Channels.newOutputStream(channel), BUFFER_BYTES));
    this.target = target;
    this.hidden = hidden;
    this.channel = channel;
    this.overwrite = overwrite;
  }

  /**
   * Starts a file.
   *
   * @throws FileNotFoundException if its directory does not exist
   */
  static AtomicFile create(Path target, boolean overwrite) throws IOException {
    Path hidden = target.resolveSibling("." + target.getFileName() + "." + UUID.randomUUID() + ".tmp");
    try {
      FileChannel channel =
          FileChannel.open(hidden, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
      return new AtomicFile(target, hidden, channel, overwrite);
    } catch (NoSuchFileException missing) {
      throw new FileNotFoundException("the directory of " + target + " does not exist");
    }
  }

  /** The checksum file of Hadoop's local file system; one of an older file would not match the new file. */
  static Path checksumOf(Path file) {
    return file.resolveSibling("." + file.getFileName() + ".crc");
  }

  /** Syncs a directory, so that new and changed names in it survive a power failure. */
  static void syncDirectory(Path directory) throws IOException {
    try (FileChannel opened = FileChannel.open(directory, StandardOpenOption.READ)) {
      opened.force(true);
    }
  }

  @Override
  public void write(byte[] bytes, int offset, int length) throws IOException {
    out.write(bytes, offset, length);
  }

  /**
   * Makes the file appear.
   *
   * @throws org.apache.hadoop.fs.FileAlreadyExistsException if it exists and must not be overwritten; the existing file
   *     is unchanged
   */
  @Override
  public void close() throws IOException {
    if (over) {
      return;
    }
    over = true;
    try {
      out.flush();
      channel.force(true);
      channel.close();
      Files.deleteIfExists(checksumOf(target));
      if (overwrite) {
        Files.move(hidden, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
      } else {
        appear();
      }
    } catch (IOException | RuntimeException failure) {
      discard(failure);
      throw failure;
    }
    syncDirectory(target.getParent());
  }

  /** Drops the written bytes; the target is unchanged. */
  void cancel() throws IOException {
    if (over) {
      return;
    }
    over = true;
    try {
      channel.close();
    } finally {
      Files.deleteIfExists(hidden);
    }
  }

  /** Gives the hidden file a second name. Unlike a rename, this fails if the name is taken. */
  private void appear() throws IOException {
    try {
      Files.createLink(target, hidden);
      Files.delete(hidden);
    } catch (FileAlreadyExistsException taken) {
      throw alreadyExists(taken);
    } catch (UnsupportedOperationException | FileSystemException noLinks) {
      // Without hard links, checks first, as Spark's own manager does.
      if (Files.exists(target)) {
        throw alreadyExists(noLinks);
      }
      Files.move(hidden, target, StandardCopyOption.ATOMIC_MOVE);
    }
  }

  private IOException alreadyExists(Exception cause) {
    IOException failure =
        new org.apache.hadoop.fs.FileAlreadyExistsException(
            target + " exists already: another run of the query may be writing to the same checkpoint");
    failure.initCause(cause);
    return failure;
  }

  private void discard(Exception failure) {
    try {
      channel.close();
      Files.deleteIfExists(hidden);
    } catch (IOException second) {
      failure.addSuppressed(second);
    }
  }

}
