package bowstring.spark.wire;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Bearer tokens: a given one, of a file, or by the client-credentials grant (RFC 6749, section 4.4). */
final class BearerTokens {
  private static final Pattern ACCESS_TOKEN = Pattern.compile("\"access_token\"\\s*:\\s*\"([A-Za-z0-9\\-._~+/]+=*)\"");
  private static final Pattern EXPIRES_IN = Pattern.compile("\"expires_in\"\\s*:\\s*\"?(\\d+)");
  private static final Pattern ERROR = Pattern.compile("\"error\"\\s*:\\s*\"([\\w.-]+)\"");
  private static final Duration TIMEOUT = Duration.ofSeconds(10);

  private final String fixed;
  private final URI endpoint;
  private final String clientId;
  private final String clientSecret;
  private final String scope;
  private String known;
  private long renewAtNanos;

  BearerTokens(String token) {
    this(null, null, null, null, token);
  }

  BearerTokens(URI endpoint, String clientId, String clientSecret, String scope) {
    this(endpoint, clientId, clientSecret, scope, null);
  }

  private BearerTokens(URI endpoint, String clientId, String clientSecret, String scope, String fixed) {
    this.endpoint = endpoint;
    this.clientId = clientId;
    this.clientSecret = clientSecret;
    this.scope = scope;
    this.fixed = fixed;
  }

  /** A token that is valid for a while. */
  synchronized String token() {
    if (fixed != null) {
      return fixed;
    }
    try {
      if ("file".equals(endpoint.getScheme())) {
        return Files.readString(Path.of(endpoint)).trim();
      }
      if (known == null || System.nanoTime() - renewAtNanos >= 0) {
        request();
      }
      return known;
    } catch (IOException failed) {
      throw new UncheckedIOException("Cannot get an OAuth token from " + endpoint + ": " + failed.getMessage(), failed);
    }
  }

  private void request() throws IOException {
    String form = "grant_type=client_credentials"
        + (scope == null ? "" : "&scope=" + URLEncoder.encode(scope, StandardCharsets.UTF_8));
    String login = Base64.getEncoder()
        .encodeToString((clientId + ":" + clientSecret).getBytes(StandardCharsets.UTF_8));
    HttpRequest request = HttpRequest.newBuilder(endpoint).timeout(TIMEOUT)
        .header("Authorization", "Basic " + login).header("Content-Type", "application/x-www-form-urlencoded")
        .POST(HttpRequest.BodyPublishers.ofString(form)).build();
    HttpResponse<String> answer;
    try {
      answer = HttpClient.newBuilder().connectTimeout(TIMEOUT).build()
          .send(request, HttpResponse.BodyHandlers.ofString());
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", stopped);
    }
    Matcher token = ACCESS_TOKEN.matcher(answer.body());
    if (answer.statusCode() != 200 || !token.find()) {
      Matcher error = ERROR.matcher(answer.body());
      throw new IOException("it answers " + answer.statusCode() + (error.find() ? " " + error.group(1) : "")
          + "; check client id, secret and scope");
    }
    known = token.group(1);
    Matcher seconds = EXPIRES_IN.matcher(answer.body());
    long lifetime = seconds.find() ? Long.parseLong(seconds.group(1)) : 0;
    renewAtNanos = System.nanoTime() + Duration.ofSeconds(lifetime).toNanos() / 10 * 8;
  }
}
