package bowstring.spark.values;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.avro.Schema;

/**
 * A schema registry with Confluent's REST API. Its address may have a user and a password, for basic authentication.
 */
final class SchemaRegistry {
  private static final Duration PATIENCE = Duration.ofSeconds(10);
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int REFERENCES_MAX = 200;

  /** Answers that never change: schemas by id, and versions. */
  private static final Map<String, JsonNode> ANSWERS = new ConcurrentHashMap<>();

  private final String address;
  private final String login;

  /**
   * @throws IllegalArgumentException if the address is not one of HTTP
   */
  SchemaRegistry(String address) {
    URI given = URI.create(address.trim().replaceAll("/+$", ""));
    String authority = given.getRawAuthority();
    if (authority == null || !(address.startsWith("http://") || address.startsWith("https://"))) {
      throw new IllegalArgumentException("the schema registry's address must be such as http://registry:8081");
    }
    int at = authority.lastIndexOf('@');
    String path = given.getRawPath() == null ? "" : given.getRawPath();
    this.address = given.getScheme() + "://" + authority.substring(at + 1) + path;
    this.login = at < 0 ? null : "Basic " + Base64.getEncoder().encodeToString(
        URLDecoder.decode(authority.substring(0, at).replace("+", "%2B"), StandardCharsets.UTF_8)
            .getBytes(StandardCharsets.UTF_8));
  }

  /** The schema with an id, null if there is none. */
  JsonNode byId(int id) {
    return kept("/schemas/ids/" + Integer.toUnsignedString(id), "schema " + Integer.toUnsignedString(id));
  }

  /** The newest version of a subject, null if there is none. */
  JsonNode newest(String subject) {
    return answer("/subjects/" + quoted(subject) + "/versions/latest", "the newest version of subject " + subject);
  }

  private static String quoted(String subject) {
    return URLEncoder.encode(subject, StandardCharsets.UTF_8).replace("+", "%20");
  }

  private JsonNode kept(String path, String what) {
    JsonNode known = ANSWERS.get(address + path);
    if (known == null) {
      known = answer(path, what);
      if (known != null) {
        ANSWERS.put(address + path, known);
      }
    }
    return known;
  }

  private JsonNode answer(String path, String what) {
    try {
      HttpClient client = HttpClient.newBuilder().connectTimeout(PATIENCE).build();
      HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(address + path)).timeout(PATIENCE);
      if (login != null) {
        request.header("Authorization", login);
      }
      HttpResponse<String> response = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
      if (response.statusCode() == 404) {
        return null;
      }
      if (response.statusCode() == 401 || response.statusCode() == 403) {
        throw new IOException("HTTP status " + response.statusCode()
            + ": it refuses the user or password, which its address may have: http://user:password@host");
      }
      if (response.statusCode() != 200) {
        throw new IOException("HTTP status " + response.statusCode());
      }
      JsonNode found = JSON.readTree(response.body());
      if (!found.path("schema").isTextual()) {
        throw new IOException("the response has no schema");
      }
      return found;
    } catch (IOException failed) {
      throw new IllegalStateException("The schema registry did not return " + what + " (" + address + path + ": "
          + failed + "): check option value.schemas or value.registry", failed);
    } catch (InterruptedException killed) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("Interrupted while asking the schema registry " + address, killed);
    }
  }

  /** AVRO, JSON or PROTOBUF. */
  static String kind(JsonNode schema) {
    return schema.path("schemaType").asText("AVRO");
  }

  /** The schemas that one refers to, also through others, by name; dependencies first. */
  private Map<String, JsonNode> references(JsonNode schema, String form) {
    Map<String, JsonNode> found = new LinkedHashMap<>();
    collect(schema, form, found, 0);
    return found;
  }

  private void collect(JsonNode schema, String form, Map<String, JsonNode> found, int depth) {
    for (JsonNode each : schema.path("references")) {
      String subject = each.path("subject").asText();
      int version = each.path("version").asInt();
      if (found.containsKey(each.path("name").asText())) {
        continue;
      }
      if (found.size() >= REFERENCES_MAX || depth > REFERENCES_MAX) {
        throw new IllegalArgumentException("it refers to too many other schemas");
      }
      String what = "version " + version + " of subject " + subject;
      JsonNode other = kept("/subjects/" + quoted(subject) + "/versions/" + version + form, what);
      if (other == null) {
        throw new IllegalArgumentException("the registry lacks " + what + ", which it refers to");
      }
      collect(other, form, found, depth + 1);
      found.putIfAbsent(each.path("name").asText(), other);
    }
  }

  /**
   * The parsed Avro schema, with those that it refers to.
   *
   * @throws IllegalArgumentException if it is not Avro
   */
  Schema avro(JsonNode schema) {
    if (!kind(schema).equals("AVRO")) {
      throw new IllegalArgumentException("its type in the schema registry is " + kind(schema) + ", not AVRO");
    }
    Schema.Parser parser = new Schema.Parser();
    for (JsonNode each : references(schema, "").values()) {
      parser.parse(each.path("schema").asText());
    }
    return parser.parse(schema.path("schema").asText());
  }

  /**
   * A FileDescriptorSet of a Protobuf file and those that it imports; the file itself is the last one.
   *
   * @throws IllegalArgumentException if the registry has no serialized form of it
   */
  byte[] files(JsonNode schema) {
    String form = "?format=serialized";
    JsonNode own = kept("/schemas/ids/" + schema.path("id").asText() + form, "schema " + schema.path("id").asText());
    ByteArrayOutputStream set = new ByteArrayOutputStream();
    for (JsonNode each : references(schema, form).values()) {
      add(set, each);
    }
    add(set, own);
    return set.toByteArray();
  }

  private static void add(ByteArrayOutputStream set, JsonNode schema) {
    byte[] file = file(schema);
    set.write(1 << 3 | 2);
    for (int rest = file.length; ; rest >>>= 7) {
      if (rest < 0x80) {
        set.write(rest);
        break;
      }
      set.write(rest & 0x7f | 0x80);
    }
    set.writeBytes(file);
  }

  private static byte[] file(JsonNode schema) {
    try {
      return Base64.getDecoder().decode(schema.path("schema").asText());
    } catch (IllegalArgumentException source) {
      throw new IllegalArgumentException("the registry has no serialized form of it (?format=serialized)", source);
    }
  }
}
