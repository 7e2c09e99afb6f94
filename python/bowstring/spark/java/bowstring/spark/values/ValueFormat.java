package bowstring.spark.values;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * How values are encoded, from the options of a source; made on the driver, sent to the tasks.
 *
 * <ul>
 *   <li>{@code value.format}: json, avro, protobuf, or registry: what the newest schema of a subject in a registry is
 *   <li>{@code value.registry}: for registry, its address; may have a user and a password ({@link RegistryLogin})
 *   <li>{@code value.subject}: for registry; by default that of the only topic, such as orders-value
 *   <li>{@code value.schema}: for json a DDL string, Spark's JSON of a type, or a JSON Schema; for avro the schema's
 *       JSON; for protobuf the file of a FileDescriptorSet ({@code protoc --include_imports -o}); text, or a file's path
 *   <li>{@code value.message}: for protobuf, the message's full name
 *   <li>{@code value.mode}: struct (one column {@code value}, the default) or flatten (a column for each field)
 *   <li>{@code value.framing}: confluent, for values that begin with a zero byte and a schema's id; else none
 *   <li>{@code value.schemas}: for avro with that framing, the writers' schemas: a directory of {@code <id>.avsc}, or the
 *       address of a schema registry
 *   <li>{@code mode}: PERMISSIVE (the default), FAILFAST or DROPMALFORMED, as from_json's
 * </ul>
 */
public final class ValueFormat implements Serializable {
  /** The column with the reason why a value does not decode. */
  public static final String ERROR_COLUMN = "_error";

  /** The column that the decoded value replaces. */
  public static final String VALUE_COLUMN = "value";

  private static final long serialVersionUID = 1L;

  private final String kind;
  private final byte[] definition;
  private final String message;
  private final ErrorMode mode;
  private final boolean flat;
  private final boolean framed;
  private final boolean registered;
  private final String zone;
  private final AvroSchemas writers;
  private final StructType schema;

  private ValueFormat(String kind, Map<String, String> options, byte[] registered) {
    this.kind = kind;
    this.mode = ErrorMode.of(option(options, "mode", "PERMISSIVE"));
    this.flat = choice(options, "value.mode", "struct", "flatten");
    this.framed = choice(options, "value.framing", "none", "confluent");
    this.zone = option(options, "timeZone", SQLConf.get().sessionLocalTimeZone());
    this.message = option(options, "value.message", null);
    String text = option(options, "value.schema", null);
    if (text == null) {
      throw new IllegalArgumentException("option value.format=" + kind + " needs value.schema");
    }
    String writerSchemas = option(options, "value.schemas", null);
    if (writerSchemas != null && !(kind.equals("avro") && framed)) {
      throw new IllegalArgumentException(
          "option value.schemas is for value.format=avro with value.framing=confluent: other values do not name a schema");
    }
    this.writers = AvroSchemas.of(writerSchemas, options);
    this.registered = registered != null;
    this.definition = registered != null ? registered : kind.equals("protobuf") ? file(text) : inline(text);
    this.schema = switch (kind) {
      case "json" -> JsonTypes.parse(text());
      case "avro" -> AvroTypes.struct(text());
      default -> ProtobufTypes.struct(definition, message);
    };
  }

  /**
   * Returns the format for options, null without {@code value.format}.
   *
   * @param options of the source; names in upper or lower case
   * @throws IllegalArgumentException if an option is invalid; the message says which
   */
  public static ValueFormat forOptions(Map<String, String> options) {
    String kind = option(options, "value.format", null);
    if (kind == null) {
      return null;
    }
    kind = kind.toLowerCase(Locale.ROOT);
    if (kind.equals("registry")) {
      return registered(options);
    }
    if (!kind.equals("json") && !kind.equals("avro") && !kind.equals("protobuf")) {
      throw new IllegalArgumentException(
          "option value.format=" + kind + ": it must be json, avro, protobuf or registry");
    }
    return new ValueFormat(kind, options, null);
  }

  /** The format of the newest schema of a subject in a registry. */
  private static ValueFormat registered(Map<String, String> options) {
    String address = option(options, "value.registry", null);
    if (address == null) {
      throw new IllegalArgumentException(
          "option value.format=registry needs value.registry, such as http://registry:8081");
    }
    for (String name : new String[] {"framing", "message", "schema", "schemas"}) {
      if (option(options, "value." + name, null) != null) {
        throw new IllegalArgumentException(
            "option value." + name + " is not for value.format=registry, which has the schema");
      }
    }
    String subject = option(options, "value.subject", null);
    if (subject == null) {
      String topic = option(options, "subscribe", "").trim();
      if (topic.isEmpty() || topic.contains(",")) {
        throw new IllegalArgumentException(
            "option value.format=registry needs value.subject where subscribe does not name one topic");
      }
      subject = topic + "-value";
    }
    SchemaRegistry registry = new SchemaRegistry(new RegistryLogin(address, options));
    JsonNode newest = registry.newest(subject);
    if (newest == null) {
      throw new IllegalArgumentException("option value.registry: it has no subject " + subject
          + "; register a schema, or set value.subject");
    }
    Map<String, String> known = new HashMap<>(options);
    known.put("value.framing", "confluent");
    known.put("value.schema", "");
    switch (SchemaRegistry.kind(newest)) {
      case "AVRO":
        known.put("value.schemas", address);
        return new ValueFormat("avro", known, registry.avro(newest).toString().getBytes(StandardCharsets.UTF_8));
      case "JSON":
        return new ValueFormat("json", known, registry.document(newest).toString().getBytes(StandardCharsets.UTF_8));
      case "PROTOBUF":
        byte[] files = registry.files(newest);
        known.put("value.message", ProtobufTypes.firstMessage(files));
        return new ValueFormat("protobuf", known, files);
      default:
        throw new IllegalArgumentException("the newest schema of " + subject + " is " + SchemaRegistry.kind(newest)
            + ", which is none of AVRO, JSON and PROTOBUF");
    }
  }

  private static String option(Map<String, String> options, String name, String otherwise) {
    for (Map.Entry<String, String> option : options.entrySet()) {
      if (option.getKey().equalsIgnoreCase(name)) {
        return option.getValue();
      }
    }
    return otherwise;
  }

  /** Whether an option has its second value and not its first, the default. */
  private static boolean choice(Map<String, String> options, String name, String first, String second) {
    String value = option(options, name, first);
    if (!value.equalsIgnoreCase(first) && !value.equalsIgnoreCase(second)) {
      throw new IllegalArgumentException("option " + name + "=" + value + ": it must be " + first + " or " + second);
    }
    return value.equalsIgnoreCase(second);
  }

  private static byte[] file(String path) {
    try {
      return Files.readAllBytes(Path.of(path));
    } catch (IOException e) {
      throw new IllegalArgumentException("option value.schema: the file " + path + " cannot be read: " + e, e);
    }
  }

  private static byte[] inline(String text) {
    boolean isPath = text.endsWith(".json") || text.endsWith(".avsc") || text.endsWith(".ddl");
    return isPath ? file(text) : text.getBytes(StandardCharsets.UTF_8);
  }

  /** The type of the whole value. */
  public StructType schema() {
    return schema;
  }

  /** json, avro or protobuf. */
  public String kind() {
    return kind;
  }

  String text() {
    return new String(definition, StandardCharsets.UTF_8);
  }

  byte[] definition() {
    return definition;
  }

  String message() {
    return message;
  }

  /** The schemas that values were written with; null if all are of the one schema. */
  AvroSchemas writers() {
    return writers;
  }

  ErrorMode mode() {
    return mode;
  }

  boolean isFlat() {
    return flat;
  }

  boolean isFramed() {
    return framed;
  }

  /** Whether the schemas are in a registry, so that a header of a record may name the schema of its value. */
  public boolean isRegistered() {
    return registered;
  }

  /** The zone of timestamps without one. */
  java.time.ZoneId zone() {
    return DateTimeUtils.getZoneId(zone);
  }

  /** Whether a bad value ends the query, so that offsets are needed for the message. */
  public boolean failsFast() {
    return mode == ErrorMode.FAILFAST;
  }

  /** Whether rows can be dropped, so that a count needs the values. */
  public boolean dropsRows() {
    return mode == ErrorMode.DROPMALFORMED;
  }

  /**
   * The source's schema with the value decoded: {@code value} is a struct, or in its place are the value's fields; at the
   * end is {@link #ERROR_COLUMN}.
   */
  public StructType tableSchema(StructType source) {
    StructType table = new StructType();
    boolean placed = false;
    for (StructField field : source.fields()) {
      if (field.name().equals(VALUE_COLUMN)) {
        table = withValue(table, source);
        placed = true;
      } else {
        table = table.add(field);
      }
    }
    return (placed ? table : withValue(table, source)).add(ERROR_COLUMN, DataTypes.StringType, true);
  }

  private StructType withValue(StructType table, StructType source) {
    if (!flat) {
      return table.add(VALUE_COLUMN, schema, true);
    }
    for (StructField field : schema.fields()) {
      boolean taken = source.getFieldIndex(field.name()).isDefined() && !field.name().equals(VALUE_COLUMN);
      if (taken || field.name().equals(ERROR_COLUMN)) {
        throw new IllegalArgumentException(
            "option value.mode=flatten: the value's field " + field.name() + " has the name of a column of the record;"
                + " use value.mode=struct");
      }
      table = table.add(field.name(), field.dataType(), true);
    }
    return table;
  }

  /**
   * Returns a decoder for the columns that a query needs.
   *
   * @param required of {@link #tableSchema}, pruned; fields of structs may be pruned, too
   * @return null if nothing of the value is needed
   */
  public ValueDecoder decoder(StructType required) {
    StructType shown = shown(required);
    boolean checked = mode != ErrorMode.PERMISSIVE || required.getFieldIndex(ERROR_COLUMN).isDefined();
    if (shown.isEmpty() && !checked && !required.getFieldIndex(VALUE_COLUMN).isDefined()) {
      return null;
    }
    return switch (kind) {
      case "json" -> new JsonDecoder(this, shown, checked);
      case "avro" -> new AvroDecoder(this, shown, checked);
      default -> new ProtobufDecoder(this, shown, checked);
    };
  }

  private StructType shown(StructType required) {
    if (!flat) {
      return required.getFieldIndex(VALUE_COLUMN).isDefined()
          ? (StructType) required.apply(VALUE_COLUMN).dataType()
          : new StructType();
    }
    StructType shown = new StructType();
    for (StructField field : required.fields()) {
      if (schema.getFieldIndex(field.name()).isDefined()) {
        shown = shown.add(field);
      }
    }
    return shown;
  }
}
