package bowstring.spark.wire;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;

/** The address of a broker. */
public record HostPort(String host, int port) implements Serializable {

  /**
   * Parses {@code host:port[,host:port…]}; IPv6 addresses are in brackets.
   *
   * @throws IllegalArgumentException naming the entry that is not a host and port
   */
  public static List<HostPort> parseList(String servers) {
    List<HostPort> result = new ArrayList<>();
    for (String entry : servers.split(",")) {
      if (!entry.isBlank()) {
        result.add(parse(entry.trim()));
      }
    }
    if (result.isEmpty()) {
      throw new IllegalArgumentException("Option 'kafka.bootstrap.servers' names no broker: give host:port");
    }
    return result;
  }

  private static HostPort parse(String entry) {
    int scheme = entry.indexOf("://");
    String address = scheme >= 0 ? entry.substring(scheme + 3) : entry;
    int colon = address.lastIndexOf(':');
    try {
      int port = Integer.parseInt(address.substring(colon + 1));
      String host = address.substring(0, colon);
      if (host.startsWith("[") && host.endsWith("]")) {
        host = host.substring(1, host.length() - 1);
      }
      if (!host.isEmpty() && port > 0 && port < 65536) {
        return new HostPort(host, port);
      }
    } catch (NumberFormatException | IndexOutOfBoundsException notAnAddress) {
      // falls through to the message below, which shows the entry
    }
    throw new IllegalArgumentException(
        "Option 'kafka.bootstrap.servers' has '" + entry + "', which is not host:port");
  }

  @Override
  public String toString() {
    return (host.indexOf(':') >= 0 ? "[" + host + "]" : host) + ":" + port;
  }
}
