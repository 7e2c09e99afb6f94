package bowstring.spark.values;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.avro.Schema;

/**
 * The writers' schemas by the ids at the start of framed values: files {@code <id>.avsc} of a directory, read on the
 * driver, or a schema registry (Confluent's REST API), which the tasks ask once for each id.
 */
final class AvroSchemas implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final Pattern FILE = Pattern.compile("(\\d+)\\.(avsc|json)");
  private static final Duration PATIENCE = Duration.ofSeconds(10);
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Cached answers of registries, by address; a schema never changes. */
  private static final Map<URI, String> SAID = new ConcurrentHashMap<>();

  private final TreeMap<Integer, String> byId = new TreeMap<>();
  private final String registry;

  private AvroSchemas(String where) {
    registry = where.startsWith("http://") || where.startsWith("https://") ? where.replaceAll("/+$", "") : null;
    if (registry == null) {
      readFiles(where);
    }
  }

  /**
   * The schemas of the option {@code value.schemas}, null if it is not set.
   *
   * @throws IllegalArgumentException if the directory does not exist or is empty
   */
  static AvroSchemas of(String where) {
    return where == null ? null : new AvroSchemas(where.trim());
  }

  private void readFiles(String directory) {
    try (DirectoryStream<Path> files = Files.newDirectoryStream(Path.of(directory))) {
      for (Path file : files) {
        Matcher name = FILE.matcher(file.getFileName().toString());
        if (name.matches()) {
          byId.put(Integer.parseInt(name.group(1)), Files.readString(file));
        }
      }
    } catch (IOException | NumberFormatException e) {
      throw new IllegalArgumentException("option value.schemas: the directory " + directory + " cannot be read: " + e, e);
    }
    if (byId.isEmpty()) {
      throw new IllegalArgumentException("option value.schemas: the directory " + directory
          + " has no schemas; their files are named for their ids, such as 7.avsc");
    }
  }

  /**
   * The schema with an id, null if there is none.
   *
   * @throws IllegalArgumentException if it is not an Avro schema
   * @throws IllegalStateException if the registry does not answer
   */
  Schema find(int id) {
    String text = registry == null ? byId.get(id) : ask(id);
    try {
      return text == null ? null : new Schema.Parser().parse(text);
    } catch (RuntimeException e) {
      throw new IllegalArgumentException("it cannot be read: " + e.getMessage(), e);
    }
  }

  private String ask(int id) {
    URI address = URI.create(registry + "/schemas/ids/" + Integer.toUnsignedString(id));
    String said = SAID.get(address);
    if (said != null) {
      return said;
    }
    try {
      HttpClient client = HttpClient.newBuilder().connectTimeout(PATIENCE).build();
      HttpRequest request = HttpRequest.newBuilder(address).timeout(PATIENCE).build();
      HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
      if (response.statusCode() == 404) {
        return null;
      }
      if (response.statusCode() != 200) {
        throw new IOException("HTTP status " + response.statusCode());
      }
      said = schema(JSON.readTree(response.body()));
    } catch (IOException failed) {
      throw new IllegalStateException("The schema registry did not return schema " + id + " (" + address + ": " + failed
          + "): check option value.schemas, or set it to a directory of <id>.avsc files", failed);
    } catch (InterruptedException killed) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("Interrupted while asking the schema registry " + address, killed);
    }
    SAID.put(address, said);
    return said;
  }

  private static String schema(JsonNode answer) throws IOException {
    String kind = answer.path("schemaType").asText("AVRO");
    if (!kind.equals("AVRO")) {
      throw new IllegalArgumentException("its type in the schema registry is " + kind + ", not AVRO");
    }
    if (answer.path("references").size() > 0) {
      throw new IllegalArgumentException(
          "it refers to other schemas, which is not supported: put whole schemas into a directory (option value.schemas)");
    }
    if (!answer.path("schema").isTextual()) {
      throw new IOException("the response has no schema");
    }
    return answer.path("schema").asText();
  }
}
