package bowstring.spark.checkpoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;

/** A checkpoint's files through java.nio, with the errors that Spark expects from Hadoop's file systems. */
final class LocalFiles implements CheckpointFileManager {
  private static final long BLOCK_BYTES = 32L << 20;

  // For reading only: seekable streams without checksum files and without starting processes.
  private final RawLocalFileSystem raw = new RawLocalFileSystem();
  private final org.apache.hadoop.fs.Path root;

  LocalFiles(org.apache.hadoop.fs.Path root, Configuration configuration) throws IOException {
    raw.initialize(URI.create("file:///"), configuration);
    this.root = root;
  }

  private static Path local(org.apache.hadoop.fs.Path path) {
    return Path.of(path.toUri().getPath()).toAbsolutePath();
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(org.apache.hadoop.fs.Path path, boolean overwriteIfPossible) {
    try {
      return new Stream(AtomicFile.create(local(path), overwriteIfPossible));
    } catch (IOException failure) {
      throw Failures.as(failure);
    }
  }

  @Override
  public FSDataInputStream open(org.apache.hadoop.fs.Path path) {
    try {
      return raw.open(path);
    } catch (IOException failure) {
      throw Failures.as(failure);
    }
  }

  @Override
  public FileStatus[] list(org.apache.hadoop.fs.Path path, PathFilter filter) {
    Path folder = local(path);
    org.apache.hadoop.fs.Path qualified = raw.makeQualified(path);
    List<FileStatus> found = new ArrayList<>();
    try {
      if (!Files.isDirectory(folder)) {
        add(found, folder, qualified, filter);
        if (!Files.exists(folder)) {
          throw new FileNotFoundException("the directory " + folder + " does not exist");
        }
        return found.toArray(FileStatus[]::new);
      }
      try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder)) {
        for (Path entry : entries) {
          String name = entry.getFileName().toString();
          if (!(name.startsWith(".") && name.endsWith(".crc"))) {
            add(found, entry, new org.apache.hadoop.fs.Path(qualified, name), filter);
          }
        }
      }
    } catch (IOException failure) {
      throw Failures.as(failure);
    }
    FileStatus[] listed = found.toArray(FileStatus[]::new);
    Arrays.sort(listed);
    return listed;
  }

  private static void add(
      List<FileStatus> found, Path file, org.apache.hadoop.fs.Path name, PathFilter filter) throws IOException {
    if (!filter.accept(name)) {
      return;
    }
    try {
      BasicFileAttributes facts = Files.readAttributes(file, BasicFileAttributes.class);
      long length = facts.isDirectory() ? 0 : facts.size();
      long changed = facts.lastModifiedTime().toMillis();
      found.add(new FileStatus(length, facts.isDirectory(), 1, BLOCK_BYTES, changed, name));
    } catch (NoSuchFileException gone) {
      // Deleted between listing and reading its attributes: it does not exist.
      return;
    }
  }

  @Override
  public void mkdirs(org.apache.hadoop.fs.Path path) {
    Path folder = local(path);
    try {
      Deque<Path> missing = new ArrayDeque<>();
      for (Path each = folder; each != null && !Files.exists(each); each = each.getParent()) {
        missing.push(each);
      }
      Files.createDirectories(folder);
      for (Path made : missing) {
        AtomicFile.syncDirectory(made.getParent());
      }
    } catch (FileAlreadyExistsException file) {
      throw Failures.as(
          new org.apache.hadoop.fs.FileAlreadyExistsException(file.getFile() + " is a file, not a directory"));
    } catch (IOException failure) {
      throw Failures.as(failure);
    }
  }

  @Override
  public boolean exists(org.apache.hadoop.fs.Path path) {
    return Files.exists(local(path));
  }

  @Override
  public void delete(org.apache.hadoop.fs.Path path) {
    Path top = local(path);
    try {
      if (Files.isDirectory(top, java.nio.file.LinkOption.NOFOLLOW_LINKS)) {
        Files.walkFileTree(top, new Removal());
      } else {
        Files.deleteIfExists(top);
        Files.deleteIfExists(AtomicFile.checksumOf(top));
      }
    } catch (NoSuchFileException gone) {
      // Somebody else deleted it meanwhile, which is the requested result.
      return;
    } catch (IOException failure) {
      throw Failures.as(failure);
    }
  }

  @Override
  public boolean isLocal() {
    return true;
  }

  @Override
  public org.apache.hadoop.fs.Path createCheckpointDirectory() {
    mkdirs(root);
    return raw.makeQualified(root);
  }

  private static final class Removal extends SimpleFileVisitor<Path> {
    @Override
    public FileVisitResult visitFile(Path file, BasicFileAttributes facts) throws IOException {
      Files.deleteIfExists(file);
      return FileVisitResult.CONTINUE;
    }

    @Override
    public FileVisitResult postVisitDirectory(Path folder, IOException failure) throws IOException {
      if (failure != null) {
        throw failure;
      }
      Files.deleteIfExists(folder);
      return FileVisitResult.CONTINUE;
    }
  }

  private static final class Stream extends CancellableFSDataOutputStream {
    private final AtomicFile file;

    Stream(AtomicFile file) {
      super(file);
      this.file = file;
    }

    @Override
    public void cancel() {
      try {
        file.cancel();
      } catch (IOException failure) {
        throw Failures.as(failure);
      }
    }

    @Override
    public void close() throws IOException {
      file.close();
    }
  }
}
