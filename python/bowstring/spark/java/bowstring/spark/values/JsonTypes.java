package bowstring.spark.values;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/** Types of JSON values: DDL ({@code a bigint, b string}), Spark's own JSON, or a JSON Schema. */
final class JsonTypes {
  private final JsonNode document;
  private final Set<String> open = new HashSet<>();

  private JsonTypes(JsonNode document) {
    this.document = document;
  }

  /** The struct that a schema describes. */
  static StructType parse(String text) {
    DataType type;
    try {
      type = text.stripLeading().startsWith("{") ? parseJson(text) : StructType.fromDDL(text);
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException("option value.schema is not JSON: " + e.getOriginalMessage(), e);
    }
    if (type instanceof StructType struct) {
      return struct;
    }
    throw new IllegalArgumentException(
        "option value.schema: a JSON value must be an object with properties, not " + type.simpleString());
  }

  private static DataType parseJson(String text) throws JsonProcessingException {
    JsonNode document = new ObjectMapper().readTree(text);
    return document.path("type").asText().equals("struct")
        ? DataType.fromJson(text)
        : new JsonTypes(document).type(document);
  }

  private DataType type(JsonNode schema) {
    if (schema.has("$ref")) {
      return reference(schema.get("$ref").asText());
    }
    for (String alternatives : new String[] {"oneOf", "anyOf"}) {
      if (schema.has(alternatives)) {
        return type(notNull(schema.get(alternatives), alternatives));
      }
    }
    JsonNode type = schema.path("type");
    if (type.isArray()) {
      type = notNull(type, "type");
    }
    return switch (type.asText(schema.has("properties") ? "object" : schema.has("enum") ? "string" : "")) {
      case "string" -> string(schema);
      case "integer" -> DataTypes.LongType;
      case "number" -> DataTypes.DoubleType;
      case "boolean" -> DataTypes.BooleanType;
      case "array" -> new ArrayType(type(schema.path("items")), true);
      case "object" -> object(schema);
      default -> throw new IllegalArgumentException("option value.schema: no type is known for " + schema);
    };
  }

  private DataType reference(String pointer) {
    if (!pointer.startsWith("#")) {
      throw new IllegalArgumentException("option value.schema: $ref " + pointer + " is outside the schema");
    }
    if (!open.add(pointer)) {
      throw new IllegalArgumentException("option value.schema: " + pointer + " contains itself, which columns cannot represent");
    }
    DataType type = type(document.at(pointer.substring(1)));
    open.remove(pointer);
    return type;
  }

  private static JsonNode notNull(JsonNode alternatives, String keyword) {
    JsonNode only = null;
    for (JsonNode alternative : alternatives) {
      boolean isNull = alternative.asText().equals("null") || alternative.path("type").asText().equals("null");
      if (!isNull && only != null) {
        throw new IllegalArgumentException("option value.schema: columns cannot represent " + keyword + " of several types: " + alternatives);
      }
      only = isNull ? only : alternative;
    }
    if (only == null) {
      throw new IllegalArgumentException("option value.schema: " + keyword + " has no type: " + alternatives);
    }
    return only;
  }

  private static DataType string(JsonNode schema) {
    if (schema.path("contentEncoding").asText().equals("base64")) {
      return DataTypes.BinaryType;
    }
    return switch (schema.path("format").asText()) {
      case "date-time" -> DataTypes.TimestampType;
      case "date" -> DataTypes.DateType;
      default -> DataTypes.StringType;
    };
  }

  private DataType object(JsonNode schema) {
    if (!schema.has("properties") && schema.path("additionalProperties").isObject()) {
      return new MapType(DataTypes.StringType, type(schema.get("additionalProperties")), true);
    }
    StructType struct = new StructType();
    for (Map.Entry<String, JsonNode> property : schema.path("properties").properties()) {
      struct = struct.add(property.getKey(), type(property.getValue()), true);
    }
    return struct;
  }
}
