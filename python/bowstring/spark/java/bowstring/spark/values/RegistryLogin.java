package bowstring.spark.values;

import bowstring.spark.wire.KeyMaterial;
import java.io.IOException;
import java.io.Serializable;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.URLDecoder;
import java.net.http.HttpClient;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/**
 * The address of a schema registry and how to log in: the options {@code value.registry} and {@code value.registry.*},
 * or {@code key.*}. The address may have a user and a password.
 */
final class RegistryLogin implements Serializable {
  private static final long serialVersionUID = 1L;

  /** Those that are tried in turn, without a user and a password. */
  final List<String> addresses = new ArrayList<>();

  private final String authorization;

  /** Names of Kafka's settings, and files. */
  private final TreeMap<String, String> tls = new TreeMap<>();

  private transient HttpClient client;

  /** A login for the registry of values. */
  RegistryLogin(String given, Map<String, String> options) {
    this(given, options, "value");
  }

  /**
   * A login.
   *
   * @param options by their names, in any case
   * @param column whose options count: {@code key} or {@code value}
   * @throws IllegalArgumentException if the address is not one of HTTP
   */
  RegistryLogin(String given, Map<String, String> options, String column) {
    String prefix = column + ".registry.";
    String user = null;
    for (String each : given.split(",")) {
      URI uri = parsed(each.trim().replaceAll("/+$", ""));
      String authority = uri.getRawAuthority();
      int at = authority.lastIndexOf('@');
      if (addresses.isEmpty() && at >= 0) {
        user = URLDecoder.decode(authority.substring(0, at).replace("+", "%2B"), StandardCharsets.UTF_8);
      }
      String path = uri.getRawPath() == null ? "" : uri.getRawPath();
      addresses.add(uri.getScheme() + "://" + authority.substring(at + 1) + path);
    }
    TreeMap<String, String> more = new TreeMap<>();
    options.forEach((name, value) -> {
      if (name.toLowerCase(Locale.ROOT).startsWith(prefix)) {
        more.put(name.toLowerCase(Locale.ROOT).substring(prefix.length()), value.trim());
      }
    });
    authorization = authorization(more, user);
    put("ssl.ca.location", more.get("cafile"));
    put("ssl.certificate.location", more.get("certfile"));
    put("ssl.key.location", more.get("keyfile"));
  }

  /** The parts of an address; errors do not show it, because it may have a password. */
  private static URI parsed(String address) {
    URI uri = null;
    if (address.startsWith("http://") || address.startsWith("https://")) {
      try {
        uri = new URI(address);
      } catch (URISyntaxException wrong) {
        uri = null;
      }
    }
    if (uri == null || uri.getRawAuthority() == null) {
      throw new IllegalArgumentException("the schema registry's address must be such as http://registry:8081");
    }
    return uri;
  }

  private void put(String setting, String file) {
    if (file != null) {
      tls.put(setting, file);
    }
  }

  private static String authorization(Map<String, String> more, String ofAddress) {
    if (more.get("token") != null) {
      return "Bearer " + more.get("token");
    }
    String user = more.get("user") == null ? ofAddress : more.get("user") + ":" + more.getOrDefault("password", "");
    return user == null ? null
        : "Basic " + Base64.getEncoder().encodeToString(user.getBytes(StandardCharsets.UTF_8));
  }

  /** Equal for those that a registry answers alike. It has the password: it is no text for logs. */
  List<Object> identity() {
    return Arrays.asList(List.copyOf(addresses), authorization, Map.copyOf(tls));
  }

  /** The header Authorization, null for none. */
  String authorization() {
    return authorization;
  }

  /** A client for requests. */
  synchronized HttpClient client(Duration patience) throws IOException {
    if (client == null) {
      // Without an offer to upgrade to HTTP/2, which some servers take for a request without its body.
      HttpClient.Builder builder =
          HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(patience);
      if (!tls.isEmpty()) {
        try {
          builder.sslContext(KeyMaterial.context(tls, true));
        } catch (GeneralSecurityException unusable) {
          throw new IOException("its certificates cannot be used: " + unusable.getMessage(), unusable);
        }
      }
      client = builder.build();
    }
    return client;
  }

  /** Without the login. */
  @Override
  public String toString() {
    return String.join(",", addresses);
  }
}
