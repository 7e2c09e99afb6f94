package bowstring.spark.local;

import java.io.Closeable;
import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/** The address of a local socket. A long path is reached through a link to its folder, until this is closed. */
final class SocketPath implements Closeable {
  /** Size of the path in a sockaddr_un, see unix(7). */
  private static final int ADDRESS_BYTES_MAX = 107;

  private final Path linkFolder;
  private final Path link;
  private final Path reached;

  SocketPath(Path socket) throws IOException {
    if (socket.toString().getBytes(StandardCharsets.UTF_8).length <= ADDRESS_BYTES_MAX) {
      linkFolder = null;
      link = null;
      reached = socket;
      return;
    }
    linkFolder = Files.createTempDirectory("bowstring-");
    try {
      link = Files.createSymbolicLink(linkFolder.resolve("d"), socket.toAbsolutePath().getParent());
    } catch (IOException e) {
      Files.delete(linkFolder);
      throw e;
    }
    reached = link.resolve(socket.getFileName());
  }

  UnixDomainSocketAddress address() {
    return UnixDomainSocketAddress.of(reached);
  }

  @Override
  public void close() throws IOException {
    if (link != null) {
      Files.deleteIfExists(link);
      Files.deleteIfExists(linkFolder);
    }
  }
}
