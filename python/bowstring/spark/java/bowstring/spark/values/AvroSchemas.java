package bowstring.spark.values;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
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
    try {
      if (registry == null) {
        String text = byId.get(id);
        return text == null ? null : new Schema.Parser().parse(text);
      }
      SchemaRegistry asked = new SchemaRegistry(registry);
      JsonNode found = asked.byId(id);
      return found == null ? null : asked.avro(found);
    } catch (IllegalStateException away) {
      throw away;
    } catch (RuntimeException e) {
      throw new IllegalArgumentException("it cannot be read: " + e.getMessage(), e);
    }
  }
}
