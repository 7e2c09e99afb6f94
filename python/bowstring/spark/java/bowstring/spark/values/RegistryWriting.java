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
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.types.StructType;

/**
 * How a sink encodes structs in the column {@code key} or {@code value} by a schema of a registry: the options
 * {@code value.*} of {@code value.format=registry}, or {@code key.*}, which are the arguments of
 * {@code bowstring.Registry}.
 *
 * <p>The driver registers the schema of the topic that the option {@code topic} names; of other topics, tasks do.
 */
public final class RegistryWriting implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String FORMAT = "registry";
  private static final String PROTOBUF = "PROTOBUF";

  /** By the name after the prefix, in lower case. */
  private static final Set<String> NAMES = Set.of("format", "registry", "subject", "schema", "kind", "references",
      "strategy", "wire", "autoregister", "uselatest", "normalize", "registry.user", "registry.password",
      "registry.token", "registry.cafile", "registry.certfile", "registry.keyfile", "message", "mode");

  /** A line of a .proto text that other schemas do not have. */
  private static final Pattern PROTO = Pattern.compile(
      "^\\s*(?:syntax\\s*=|edition\\s*=|package\\s+[\\w.]+\\s*;|message\\s+\\w+\\s*\\{)", Pattern.MULTILINE);
  private static final Pattern PROTO_SKIPPED = Pattern.compile(
      "//[^\\n]*|/\\*.*?\\*/|\"(?:\\\\.|[^\"\\\\])*\"|'(?:\\\\.|[^'\\\\])*'", Pattern.DOTALL);
  private static final Pattern PROTO_PACKAGE = Pattern.compile("(?:^|[;}])\\s*package\\s+([\\w.]+)\\s*;");
  private static final Pattern PROTO_MESSAGE = Pattern.compile("\\bmessage\\s+(\\w+)\\s*\\{");

  private static final Set<String> JSON_MARKS = Set.of("$schema", "properties", "$ref", "oneOf", "anyOf", "allOf");

  /** A schema that registry and sink agree on; of Protobuf with the message's name. */
  private record Agreed(String kind, byte[] definition, String message, int id, UUID guid) implements Serializable {}

  private final String column;
  private final TreeMap<String, String> value;
  private final RegistryLogin login;
  private final StructType type;
  private final String given;

  /** A FileDescriptorSet; null unless the option {@code message} names one of its messages. */
  private final byte[] set;

  private final String kind;
  private final HashMap<String, Agreed> agreed = new HashMap<>();

  private RegistryWriting(String column, TreeMap<String, String> value, RegistryLogin login, StructType type) {
    this.column = column;
    this.value = value;
    this.login = login;
    this.type = type;
    this.set = value.get("message") == null ? null : descriptors();
    this.given = value.get("schema") == null || set != null ? null : inline(value.get("schema"));
    this.kind = set != null ? PROTOBUF : given == null ? null : kindOf(given);
  }

  /** Whether structs in a column, {@code key} or {@code value}, are encoded. */
  public static boolean encodes(Map<String, String> options, String column) {
    return of(options, column).getOrDefault("format", "").equalsIgnoreCase(FORMAT);
  }

  /** The options of a column, by the name after its prefix, in lower case. */
  private static TreeMap<String, String> of(Map<String, String> options, String column) {
    TreeMap<String, String> found = new TreeMap<>();
    options.forEach((name, text) -> {
      String lower = name.toLowerCase(Locale.ROOT);
      if (lower.startsWith(column + ".")) {
        found.put(lower.substring(column.length() + 1), text.trim());
      }
    });
    return found;
  }

  /**
   * Returns how a column is encoded; null if its option {@code format} is not registry. Keys without a registry of their
   * own use that of values.
   *
   * @param options of the sink
   * @param column {@code key} or {@code value}
   * @param type of the column
   * @throws IllegalArgumentException naming the option that is missing or wrong
   */
  public static RegistryWriting of(Map<String, String> options, String column, StructType type) {
    if (!encodes(options, column)) {
      return null;
    }
    TreeMap<String, String> value = of(options, column);
    for (String name : value.keySet()) {
      if (!NAMES.contains(name)) {
        throw new IllegalArgumentException("option " + column + "." + name + " is not for " + column + ".format=registry");
      }
    }
    String at = value.get("registry") == null ? "value" : column;
    String address = of(options, at).get("registry");
    if (address == null) {
      throw new IllegalArgumentException(
          "option " + column + ".format=registry needs " + column + ".registry, such as http://registry:8081");
    }
    check(column, value, "strategy", "topic", "record", "topic_record");
    check(column, value, "wire", "prefix", "headers");
    check(column, value, "kind", "avro", "json", "protobuf");
    for (String flag : List.of("autoregister", "uselatest", "normalize")) {
      check(column, value, flag, "true", "false");
    }
    return new RegistryWriting(column, value, new RegistryLogin(address, options, at), type);
  }

  private static void check(String column, Map<String, String> value, String name, String... words) {
    String text = value.get(name);
    if (text != null && !List.of(words).contains(text.toLowerCase(Locale.ROOT))) {
      throw new IllegalArgumentException(
          "option " + column + "." + name + " is '" + text + "', it must be " + String.join(" or ", words));
    }
  }

  private boolean is(String name, boolean otherwise) {
    return value.get(name) == null ? otherwise : value.get(name).equalsIgnoreCase("true");
  }

  private byte[] descriptors() {
    String file = value.get("schema");
    try {
      return Files.readAllBytes(Path.of(file == null ? "" : file));
    } catch (IOException | InvalidPathException unreadable) {
      throw new IllegalArgumentException("option " + column + ".message needs " + column
          + ".schema, the file of protoc --include_imports --descriptor_set_out, which is readable: " + file, unreadable);
    }
  }

  private String inline(String text) {
    if (text.startsWith("{") || text.startsWith("[") || text.startsWith("\"") || PROTO.matcher(text).find()) {
      return text;
    }
    try {
      return Files.readString(Path.of(text));
    } catch (IOException | InvalidPathException unreadable) {
      throw new IllegalArgumentException("option " + column
          + ".schema is neither JSON, nor a .proto text, nor a readable file: " + text, unreadable);
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
    String named = value.getOrDefault("kind", "").toUpperCase(Locale.ROOT);
    boolean isJsonText = text.startsWith("{") || text.startsWith("[") || text.startsWith("\"");
    if (named.equals(PROTOBUF) || named.isEmpty() && !isJsonText && PROTO.matcher(text).find()) {
      return PROTOBUF;
    }
    JsonNode document = parsed(text, column + ".schema");
    if (!named.isEmpty()) {
      return named;
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
      return topic + "-" + column;
    }
    String name = name();
    if (name.isEmpty()) {
      throw new IllegalArgumentException("option " + column + ".strategy=" + strategy
          + " needs the name of a record: set " + column + ".schema, or " + column + ".subject");
    }
    return strategy.equals("record") ? name : topic + "-" + name;
  }

  /** The full name of the given record or first message, or the title of a JSON Schema; empty without one. */
  private String name() {
    if (set != null) {
      return value.get("message");
    }
    if (given == null) {
      return "";
    }
    if (kind.equals(PROTOBUF)) {
      String bare = PROTO_SKIPPED.matcher(given).replaceAll(" ");
      Matcher space = PROTO_PACKAGE.matcher(bare);
      Matcher message = PROTO_MESSAGE.matcher(bare);
      return !message.find() ? "" : space.find() ? space.group(1) + "." + message.group(1) : message.group(1);
    }
    JsonNode document = parsed(given, column + ".schema");
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
    if (kind == null || is("uselatest", false)) {
      found = registry.newest(subject);
      schema = found;
      if (found == null) {
        throw new IllegalArgumentException("the schema registry " + login + " has no subject " + subject
            + ": to register a schema, set " + column + ".schema");
      }
    } else {
      boolean registers = is("autoregister", true);
      ObjectNode body = set == null ? body() : new ProtobufFiles(set).body("." + name(),
          (name, file) -> imported(registry, name, file, registers));
      found = registry.agreed(subject, body, registers, is("normalize", false));
      schema = body;
      if (found != null) {
        body.set("id", found.path("id")); // of .proto texts the registry has the descriptor
      }
      if (found == null) {
        throw new IllegalArgumentException("subject " + subject + " of " + login
            + " does not have the schema: register it first, or set " + column + ".autoRegister=true");
      }
    }
    int id = (int) found.path("id").asLong();
    String agreedKind = SchemaRegistry.kind(schema);
    byte[] definition = definition(registry, schema, id);
    String message = !agreedKind.equals(PROTOBUF) ? null
        : set == null || is("uselatest", false) ? ProtobufTypes.firstMessage(definition) : name();
    return new Agreed(agreedKind, definition, message, id, guid(registry, found, id));
  }

  /** The version of a file that another one imports; registers it if it may. */
  private int imported(SchemaRegistry registry, String subject, ObjectNode body, boolean registers) {
    if (registers) {
      registry.agreed(subject, body, true, is("normalize", false));
    }
    JsonNode found = registry.agreed(subject, body, false, is("normalize", false));
    if (found == null) {
      throw new IllegalArgumentException("subject " + subject + " of " + login + " does not have the file that "
          + column + ".schema imports: register it first, or set " + column + ".autoRegister=true");
    }
    return found.path("version").asInt();
  }

  private ObjectNode body() {
    ObjectNode body = JSON.createObjectNode().put("schema", given);
    if (!kind.equals("AVRO")) {
      body.put("schemaType", kind);
    }
    String references = value.get("references");
    if (references != null) {
      JsonNode list = parsed(references, column + ".references");
      for (JsonNode each : list) {
        if (!each.path("name").isTextual() || !each.path("subject").isTextual() || !each.path("version").isInt()) {
          list = JSON.nullNode();
          break;
        }
      }
      if (!list.isArray()) {
        throw new IllegalArgumentException("option " + column + ".references is '" + references + "', it must be JSON such as "
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
      case PROTOBUF -> registry.files(schema);
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
          + " has no guids of schemas, which headers need: set " + column + ".wire=prefix");
    }
    return UUID.fromString(text);
  }

  // ---------------------------------------------------------------- the encoder

  /** The name of the header that names the schema of a key or value. */
  public String header() {
    return "__" + column + "_schema_id";
  }

  /**
   * A new encoder of a topic's values.
   *
   * @throws IllegalArgumentException if the column does not fit the schema
   */
  public ValueEncoder encoder(String topic) {
    Agreed schema = agreed.computeIfAbsent(topic, this::agree);
    byte[] indexes = new byte[0];
    ValueEncoder encoder;
    if (schema.kind.equals(PROTOBUF)) {
      ProtobufTypes types = new ProtobufTypes(schema.definition);
      indexes = types.message(schema.message).indexBytes();
      encoder = new ProtobufEncoder(types, schema.message, type);
    } else if (schema.kind.equals("AVRO")) {
      encoder = new AvroEncoder(AvroEncoder.parse(schema.definition), type);
    } else {
      encoder = new JsonEncoder(JsonTypes.parse(new String(schema.definition, StandardCharsets.UTF_8)), type);
    }
    if (schema.guid == null) {
      return encoder.with(ByteBuffer.allocate(SchemaKey.ID_BYTES + indexes.length).put((byte) 0).putInt(schema.id)
          .put(indexes).array(), null);
    }
    return encoder.with(new byte[0], ByteBuffer.allocate(SchemaKey.GUID_BYTES + indexes.length).put((byte) 1)
        .putLong(schema.guid.getMostSignificantBits()).putLong(schema.guid.getLeastSignificantBits()).put(indexes)
        .array());
  }
}
