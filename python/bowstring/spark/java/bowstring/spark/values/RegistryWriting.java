package bowstring.spark.values;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.spark.sql.types.StructType;

/**
 * How a sink encodes structs in the column {@code value} by a schema of a registry: the options {@code value.*} of
 * {@code value.format=registry}, which are the arguments of {@code bowstring.Registry}.
 *
 * <p>The driver registers the schema of the topic that the option {@code topic} names; of other topics, tasks do.
 */
public final class RegistryWriting implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String PREFIX = "value.";

  /** By the name after the prefix, in lower case. The last four are for reading. */
  private static final Set<String> NAMES = Set.of("format", "registry", "subject", "schema", "kind", "references",
      "strategy", "wire", "autoregister", "uselatest", "normalize", "registry.user", "registry.password",
      "registry.token", "registry.cafile", "registry.certfile", "registry.keyfile", "mode");

  private static final Set<String> JSON_MARKS = Set.of("$schema", "properties", "$ref", "oneOf", "anyOf", "allOf");

  /** A schema that registry and sink agree on. */
  private record Agreed(String kind, byte[] definition, int id, UUID guid) implements Serializable {}

  private final TreeMap<String, String> value;
  private final RegistryLogin login;
  private final StructType type;
  private final String given;
  private final String kind;
  private final HashMap<String, Agreed> agreed = new HashMap<>();

  private RegistryWriting(TreeMap<String, String> value, RegistryLogin login, StructType type) {
    this.value = value;
    this.login = login;
    this.type = type;
    this.given = value.get("schema") == null ? null : inline(value.get("schema"));
    this.kind = given == null ? null : kindOf(given);
  }

  /**
   * Returns how values are encoded; null if the option {@code value.format} is not registry.
   *
   * @param options of the sink
   * @param type of the column
   * @throws IllegalArgumentException naming the option that is missing or wrong
   */
  public static RegistryWriting of(Map<String, String> options, StructType type) {
    TreeMap<String, String> value = new TreeMap<>();
    options.forEach((name, text) -> {
      String lower = name.toLowerCase(Locale.ROOT);
      if (lower.startsWith(PREFIX)) {
        value.put(lower.substring(PREFIX.length()), text.trim());
      }
    });
    if (!value.getOrDefault("format", "").equalsIgnoreCase("registry")) {
      return null;
    }
    if (value.get("registry") == null) {
      throw new IllegalArgumentException(
          "option value.format=registry needs value.registry, such as http://registry:8081");
    }
    for (String name : value.keySet()) {
      if (!NAMES.contains(name)) {
        throw new IllegalArgumentException("option value." + name + " is not for value.format=registry");
      }
    }
    check(value, "strategy", "topic", "record", "topic_record");
    check(value, "wire", "prefix", "headers");
    check(value, "kind", "avro", "json");
    for (String flag : List.of("autoregister", "uselatest", "normalize")) {
      check(value, flag, "true", "false");
    }
    return new RegistryWriting(value, new RegistryLogin(value.get("registry"), options), type);
  }

  private static void check(Map<String, String> value, String name, String... words) {
    String text = value.get(name);
    if (text != null && !List.of(words).contains(text.toLowerCase(Locale.ROOT))) {
      throw new IllegalArgumentException(
          "option value." + name + " is '" + text + "', it must be " + String.join(" or ", words));
    }
  }

  private boolean is(String name, boolean otherwise) {
    return value.get(name) == null ? otherwise : value.get(name).equalsIgnoreCase("true");
  }

  private static String inline(String text) {
    if (text.startsWith("{") || text.startsWith("[") || text.startsWith("\"")) {
      return text;
    }
    try {
      return Files.readString(Path.of(text));
    } catch (IOException unreadable) {
      throw new IllegalArgumentException(
          "option value.schema is neither JSON nor a readable file: " + text, unreadable);
    }
  }

  private static JsonNode parsed(String text, String option) {
    try {
      return JSON.readTree(text);
    } catch (JsonProcessingException wrong) {
      throw new IllegalArgumentException("option " + option + " is not JSON: " + wrong.getOriginalMessage(), wrong);
    }
  }

  private String kindOf(String text) {
    JsonNode document = parsed(text, "value.schema");
    if (value.get("kind") != null) {
      return value.get("kind").toUpperCase(Locale.ROOT);
    }
    boolean isJson = document.isObject() && !document.path("type").asText().equals("record")
        && (document.path("type").asText().equals("object") || JSON_MARKS.stream().anyMatch(document::has));
    return isJson ? "JSON" : "AVRO";
  }

  // ---------------------------------------------------------------- the schema

  /** Agrees with the registry on the schema of a topic's values. On the driver, so that tasks need not. */
  public void prepare(String topic) {
    agreed.put(topic, agree(topic));
    encoder(topic);
  }

  private String subject(String topic) {
    if (value.get("subject") != null) {
      return value.get("subject");
    }
    String strategy = value.getOrDefault("strategy", "topic").toLowerCase(Locale.ROOT);
    if (strategy.equals("topic")) {
      return topic + "-value";
    }
    String name = name();
    if (name.isEmpty()) {
      throw new IllegalArgumentException("option value.strategy=" + strategy
          + " needs the name of a record: set value.schema, or value.subject");
    }
    return strategy.equals("record") ? name : topic + "-" + name;
  }

  /** The full name of the given record, or the title of a JSON Schema; empty without one. */
  private String name() {
    if (given == null) {
      return "";
    }
    JsonNode document = parsed(given, "value.schema");
    if (kind.equals("JSON")) {
      return document.path("title").asText("");
    }
    String name = document.path("name").asText("");
    String space = document.path("namespace").asText("");
    return space.isEmpty() || name.isEmpty() || name.contains(".") ? name : space + "." + name;
  }

  private Agreed agree(String topic) {
    SchemaRegistry registry = new SchemaRegistry(login);
    String subject = subject(topic);
    JsonNode schema;
    JsonNode found;
    if (given == null || is("uselatest", false)) {
      found = registry.newest(subject);
      schema = found;
      if (found == null) {
        throw new IllegalArgumentException("the schema registry " + login + " has no subject " + subject
            + ": to register a schema, set value.schema");
      }
    } else {
      ObjectNode body = body();
      boolean registers = is("autoregister", true);
      found = registry.agreed(subject, body, registers, is("normalize", false));
      schema = body;
      if (found == null) {
        throw new IllegalArgumentException("subject " + subject + " of " + login
            + " does not have the schema: register it first, or set value.autoRegister=true");
      }
    }
    int id = (int) found.path("id").asLong();
    return new Agreed(SchemaRegistry.kind(schema), definition(registry, schema, id), id, guid(registry, found, id));
  }

  private ObjectNode body() {
    ObjectNode body = JSON.createObjectNode().put("schema", given);
    if (!kind.equals("AVRO")) {
      body.put("schemaType", kind);
    }
    String references = value.get("references");
    if (references != null) {
      JsonNode list = parsed(references, "value.references");
      for (JsonNode each : list) {
        if (!each.path("name").isTextual() || !each.path("subject").isTextual() || !each.path("version").isInt()) {
          list = JSON.nullNode();
          break;
        }
      }
      if (!list.isArray()) {
        throw new IllegalArgumentException("option value.references is '" + references + "', it must be JSON such as "
            + "[{\"name\":\"shop.Item\",\"subject\":\"items-value\",\"version\":1}]");
      }
      body.set("references", list);
    }
    return body;
  }

  private static byte[] definition(SchemaRegistry registry, JsonNode schema, int id) {
    return switch (SchemaRegistry.kind(schema)) {
      case "AVRO" -> registry.avro(schema).toString().getBytes(StandardCharsets.UTF_8);
      case "JSON" -> registry.document(schema).toString().getBytes(StandardCharsets.UTF_8);
      case "PROTOBUF" -> registry.files(schema);
      default -> throw new IllegalArgumentException("schema " + id + " is " + SchemaRegistry.kind(schema)
          + ", which is none of AVRO, JSON and PROTOBUF");
    };
  }

  /** The guid, if values are named by headers. */
  private UUID guid(SchemaRegistry registry, JsonNode found, int id) {
    if (!value.getOrDefault("wire", "prefix").equalsIgnoreCase("headers")) {
      return null;
    }
    String text = found.path("guid").asText("");
    if (text.isEmpty()) {
      JsonNode whole = registry.byId(id);
      text = whole == null ? "" : whole.path("guid").asText("");
    }
    if (text.isEmpty()) {
      throw new IllegalArgumentException("the schema registry " + login
          + " has no guids of schemas, which headers need: set value.wire=prefix");
    }
    return UUID.fromString(text);
  }

  // ---------------------------------------------------------------- the encoder

  /**
   * A new encoder of a topic's values.
   *
   * @throws IllegalArgumentException if the column does not fit the schema
   */
  public ValueEncoder encoder(String topic) {
    Agreed schema = agreed.computeIfAbsent(topic, this::agree);
    byte[] indexes = schema.kind.equals("PROTOBUF") ? new byte[1] : new byte[0]; // 0: the first message of the file
    ValueEncoder encoder = switch (schema.kind) {
      case "AVRO" -> new AvroEncoder(AvroEncoder.parse(schema.definition), type);
      case "JSON" -> new JsonEncoder(
          JsonTypes.parse(new String(schema.definition, StandardCharsets.UTF_8)), type);
      default -> new ProtobufEncoder(new ProtobufTypes(schema.definition),
          ProtobufTypes.firstMessage(schema.definition), type);
    };
    if (schema.guid == null) {
      return encoder.with(ByteBuffer.allocate(SchemaKey.ID_BYTES + indexes.length).put((byte) 0).putInt(schema.id)
          .put(indexes).array(), null);
    }
    return encoder.with(new byte[0], ByteBuffer.allocate(SchemaKey.GUID_BYTES + indexes.length).put((byte) 1)
        .putLong(schema.guid.getMostSignificantBits()).putLong(schema.guid.getLeastSignificantBits()).put(indexes)
        .array());
  }
}
