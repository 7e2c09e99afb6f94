package bowstring.spark.values;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;

/** The files of a FileDescriptorSet, as a registry has them: each with references to those that it imports. */
final class ProtobufFiles {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String GOOGLES = "google/protobuf/";

  /** Finds the version of an imported file, which is a subject. */
  @FunctionalInterface
  interface Versions {
    int of(String name, ObjectNode body);
  }

  private final Map<String, byte[]> files = new LinkedHashMap<>();

  /** Reads a FileDescriptorSet. */
  ProtobufFiles(byte[] set) {
    for (byte[] each : new ProtobufTypes.Parsed(set).all(1)) {
      files.put(new ProtobufTypes.Parsed(each).text(1), each);
    }
  }

  /**
   * The body that registers the file with a message.
   *
   * @param message its full name, with a dot before it
   * @param versions is called for the files that it imports, those first that they import
   */
  ObjectNode body(String message, Versions versions) {
    for (byte[] each : files.values()) {
      ProtobufTypes.Parsed file = new ProtobufTypes.Parsed(each);
      String space = file.text(2).isEmpty() ? "." : "." + file.text(2) + ".";
      if (message.startsWith(space) && has(file, message.substring(space.length()))) {
        return body(file, each, versions, new LinkedHashMap<>());
      }
    }
    throw new IllegalArgumentException("the FileDescriptorSet has no message " + message);
  }

  private static boolean has(ProtobufTypes.Parsed file, String path) {
    String first = path.contains(".") ? path.substring(0, path.indexOf('.')) : path;
    return file.all(4).stream().anyMatch(each -> new ProtobufTypes.Parsed(each).text(1).equals(first));
  }

  private ObjectNode body(
      ProtobufTypes.Parsed file, byte[] bytes, Versions versions, Map<String, Integer> known) {
    ObjectNode body = JSON.createObjectNode().put("schema", Base64.getEncoder().encodeToString(bytes));
    body.put("schemaType", "PROTOBUF");
    ArrayNode references = JSON.createArrayNode();
    for (byte[] each : file.all(3)) {
      String name = new String(each, StandardCharsets.UTF_8);
      if (name.startsWith(GOOGLES)) {
        continue;
      }
      Integer version = known.get(name);
      if (version == null) {
        byte[] other = files.get(name);
        if (other == null) {
          throw new IllegalArgumentException(
              "the FileDescriptorSet lacks " + name + ": use protoc --include_imports");
        }
        version = versions.of(name, body(new ProtobufTypes.Parsed(other), other, versions, known));
        known.put(name, version);
      }
      references.add(JSON.createObjectNode().put("name", name).put("subject", name).put("version", version));
    }
    if (!references.isEmpty()) {
      body.set("references", references);
    }
    return body;
  }
}
