package bowstring.spark.values;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
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

  private final TreeMap<Integer, String> byId = new TreeMap<>();
  private final RegistryLogin registry;

  private AvroSchemas(String where, Map<String, String> options) {
    boolean isAddress = where.startsWith("http://") || where.startsWith("https://");
    registry = isAddress ? new RegistryLogin(where, options) : null;
    if (registry == null) {
      readFiles(where);
    }
  }

  /**
   * The schemas of the option {@code value.schemas}, null if it is not set.
   *
   * @param options how to log in to a registry
   * @throws IllegalArgumentException if the directory does not exist or is empty
   */
  static AvroSchemas of(String where, Map<String, String> options) {
    return where == null ? null : new AvroSchemas(where.trim(), options);
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
   * The schema of a key, null if there is none.
   *
   * @throws IllegalArgumentException if it is not an Avro schema
   * @throws IllegalStateException if the registry does not answer
   */
  Schema find(SchemaKey key) {
    try {
      if (registry == null) {
        String text = key.guid() != null ? null : byId.get(key.id());
        return text == null ? null : new Schema.Parser().parse(text);
      }
      SchemaRegistry asked = new SchemaRegistry(registry);
      JsonNode found = key.guid() != null ? asked.byGuid(key.guid()) : asked.byId(key.id());
      return found == null ? null : asked.avro(found);
    } catch (IllegalStateException away) {
      throw away;
    } catch (RuntimeException e) {
      throw new IllegalArgumentException("it cannot be read: " + e.getMessage(), e);
    }
  }
}
