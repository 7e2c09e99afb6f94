package bowstring.spark.values;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.avro.Schema;

/** A schema registry with Confluent's REST API. */
final class SchemaRegistry {
  private static final Duration PATIENCE = Duration.ofSeconds(10);
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int REFERENCES_MAX = 200;
  private static final int REASON_MAX = 500;
  private static final String DEFINITIONS = "$defs";

  private static final RegistryAnswers ANSWERS = new RegistryAnswers();

  private final RegistryLogin login;
  private final List<Object> identity;
  private final String address;

  SchemaRegistry(RegistryLogin login) {
    this.login = login;
    this.identity = login.identity();
    this.address = login.toString();
  }

  /** The schema with an id, null if there is none. */
  JsonNode byId(int id) {
    return kept("/schemas/ids/" + Integer.toUnsignedString(id), "schema " + Integer.toUnsignedString(id));
  }

  /** The schema with a guid, null if there is none. */
  JsonNode byGuid(UUID guid) {
    return kept("/schemas/guids/" + guid, "schema " + guid);
  }

  /** The newest version of a subject, null if there is none. */
  JsonNode newest(String subject) {
    return answer("/subjects/" + quoted(subject) + "/versions/latest", "the newest version of subject " + subject);
  }

  private static String quoted(String subject) {
    return URLEncoder.encode(subject, StandardCharsets.UTF_8).replace("+", "%20");
  }

  private JsonNode kept(String path, String what) {
    RegistryAnswers.Answer known = ANSWERS.get(identity, path);
    return known == null ? ANSWERS.put(identity, path, answer(path, what)).found() : known.found();
  }

  private JsonNode answer(String path, String what) {
    JsonNode found = request("GET", path, what, null);
    if (found != null && !found.path("schema").isTextual()) {
      throw failure(what, path, new IOException("the response has no schema"));
    }
    return found;
  }

  /**
   * Registers a schema, or looks it up.
   *
   * @param body schema, type and references
   * @return with its id, and its guid if the registry has guids; null if the subject does not have it
   */
  JsonNode agreed(String subject, ObjectNode body, boolean register, boolean normalize) {
    String path = "/subjects/" + quoted(subject) + (register ? "/versions" : "") + (normalize ? "?normalize=true" : "");
    String what = "a schema of subject " + subject;
    JsonNode found = request("POST", path, what, body.toString());
    if (found != null && !found.path("id").isIntegralNumber()) {
      throw failure(what, path, new IOException("the response has no id"));
    }
    ANSWERS.forgetMissing();
    return found;
  }

  /** The JSON of an answer; null for 404. Asks one registry after the other until one answers. */
  private JsonNode request(String method, String path, String what, String body) {
    IOException last = null;
    for (String each : login.addresses) {
      try {
        HttpResponse<String> response = send(each, method, path, body);
        if (response.statusCode() == 404) {
          return null;
        }
        if (response.statusCode() == 200) {
          return JSON.readTree(response.body());
        }
        last = refused(response);
        if (response.statusCode() < 500) {
          break;
        }
      } catch (IOException failed) {
        last = failed;
      } catch (InterruptedException killed) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("Interrupted while asking the schema registry " + each, killed);
      }
    }
    throw failure(what, path, last);
  }

  private HttpResponse<String> send(String to, String method, String path, String body)
      throws IOException, InterruptedException {
    HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(to + path)).timeout(PATIENCE);
    if (body != null) {
      request.header("Content-Type", "application/vnd.schemaregistry.v1+json");
    }
    request.method(method, body == null ? HttpRequest.BodyPublishers.noBody()
        : HttpRequest.BodyPublishers.ofString(body));
    if (login.authorization() != null) {
      request.header("Authorization", login.authorization());
    }
    return login.client(PATIENCE).send(request.build(), HttpResponse.BodyHandlers.ofString());
  }

  private static IOException refused(HttpResponse<String> response) {
    int status = response.statusCode();
    return new IOException("HTTP status " + status + (status == 401 || status == 403
        ? ": it refuses the user or password: check value.registry.user and value.registry.password"
        : reason(response.body())));
  }

  private static String reason(String body) {
    try {
      String message = JSON.readTree(body).path("message").asText();
      return message.isEmpty() ? "" : ": " + message.substring(0, Math.min(message.length(), REASON_MAX));
    } catch (IOException noJson) {
      return "";
    }
  }

  private IllegalStateException failure(String what, String path, IOException failed) {
    return new IllegalStateException("The schema registry did not return " + what + " (" + address + path + ": "
        + failed + "): check option value.schemas or value.registry", failed);
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
   * A JSON Schema, with those that it refers to among its definitions.
   *
   * @throws IllegalArgumentException if one is not JSON
   */
  JsonNode document(JsonNode schema) {
    JsonNode own = parsed(schema);
    Map<String, JsonNode> known = new LinkedHashMap<>();
    references(schema, "").forEach((name, each) -> known.put(name, parsed(each)));
    if (known.isEmpty() || !own.isObject()) {
      return own;
    }
    ObjectNode whole = (ObjectNode) relinked(own, "#", known);
    ObjectNode definitions = whole.withObject("/" + DEFINITIONS);
    known.forEach((name, each) -> definitions.set(name, relinked(each, place(name), known)));
    return whole;
  }

  private static JsonNode parsed(JsonNode schema) {
    try {
      return JSON.readTree(schema.path("schema").asText());
    } catch (IOException wrong) {
      throw new IllegalArgumentException("a schema is not JSON: " + wrong.getMessage(), wrong);
    }
  }

  private static String place(String name) {
    return "#/" + DEFINITIONS + "/" + name.replace("~", "~0").replace("/", "~1");
  }

  /** A part of a schema, with its references as they are from within another document. */
  private static JsonNode relinked(JsonNode part, String root, Map<String, JsonNode> known) {
    if (part.isArray()) {
      ArrayNode made = JSON.createArrayNode();
      part.forEach(each -> made.add(relinked(each, root, known)));
      return made;
    }
    if (!part.isObject()) {
      return part;
    }
    ObjectNode made = JSON.createObjectNode();
    part.properties().forEach(each -> made.set(each.getKey(), relinked(each.getValue(), root, known)));
    String link = part.path("$ref").isTextual() ? part.path("$ref").asText() : null;
    if (link != null) {
      int at = link.indexOf('#');
      String name = at < 0 ? link : link.substring(0, at);
      String pointer = at < 0 ? "" : link.substring(at + 1);
      if (name.isEmpty()) {
        made.put("$ref", root + pointer);
      } else if (known.containsKey(name)) {
        made.put("$ref", place(name) + pointer);
      }
    }
    return made;
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
