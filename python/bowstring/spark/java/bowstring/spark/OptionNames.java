package bowstring.spark;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * Refuses options that neither the source nor the sink has, because a misspelt option would silently have no effect.
 *
 * <p>Spark's own Kafka source accepts every name. The sink accepts options of the source and vice versa, because a
 * table has one set of options for both. Settings of Kafka's clients ({@code kafka.*}) are also accepted, and options
 * that Spark adds itself.
 */
public final class OptionNames {
  /** bowstring/spark/option_names.py has the same list for the Python engine; a test compares them. */
  private static final List<String> OURS = List.of(
      "assign", "audit.bootstrap.servers", "audit.report.interval.ms", "audit.tier", "audit.topic", "audit.window.ms",
      "columns", "delivery", "endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp", "engine",
      "failOnDataLoss", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "fused", "groupIdPrefix",
      "includeHeaders", "kafkaConsumer.pollTimeoutMs", "key.autoRegister", "key.format", "key.kind", "key.message",
      "key.normalize", "key.references", "key.registry", "key.registry.caFile", "key.registry.certFile",
      "key.registry.keyFile", "key.registry.password", "key.registry.token", "key.registry.user", "key.schema",
      "key.strategy", "key.subject", "key.useLatest", "key.wire", "local", "maxOffsetsPerTrigger",
      "maxRecordsPerPartition", "maxTriggerDelay", "minOffsetsPerTrigger", "minPartitions", "mode",
      "pushDownAggregate", "startingOffsets", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
      "startingTimestamp", "subscribe", "subscribePattern", "topic", "value.autoRegister", "value.format",
      "value.framing", "value.kind", "value.message", "value.mode", "value.normalize", "value.references",
      "value.registry", "value.registry.caFile", "value.registry.certFile", "value.registry.keyFile",
      "value.registry.password", "value.registry.token", "value.registry.user", "value.schema", "value.schemas",
      "value.strategy", "value.subject", "value.useLatest", "value.wire");

  /** Options that Spark's readers, writers and catalogs add; names with a leading underscore are also Spark's. */
  private static final Set<String> SPARKS = Set.of(
      "path", "paths", "checkpointlocation", "queryname", "asyncprogresstrackingenabled",
      "asyncprogresstrackingcheckpointintervalms", "serialization.format", "bowstring.write.direct");

  private static final String KAFKA = "kafka.";

  /** A property that only tables of a catalog have, beside properties of any other origin. */
  private static final String CATALOG_PROPERTY = "provider";

  /** Prefix with which catalogs repeat a table's OPTIONS. */
  private static final String TABLE_OPTION = "option.";

  private OptionNames() {}

  /**
   * Checks the names of a reader's or writer's options, or of a table's properties.
   *
   * @throws IllegalArgumentException with the first unknown name, and the nearest known one
   */
  public static void check(Map<String, String> given) {
    boolean isTable = isOfCatalog(given);
    for (String name : new TreeSet<>(given.keySet())) {
      if (!isTable) {
        checkName(name);
      } else if (name.toLowerCase(Locale.ROOT).startsWith(TABLE_OPTION)) {
        checkName(name.substring(TABLE_OPTION.length()));
      }
    }
  }

  /** Whether these are the properties of a table in a catalog. */
  public static boolean isOfCatalog(Map<String, String> given) {
    return given.containsKey(CATALOG_PROPERTY);
  }

  private static void checkName(String name) {
    String lower = name.toLowerCase(Locale.ROOT);
    boolean known = lower.startsWith(KAFKA) || lower.startsWith("_") || SPARKS.contains(lower)
        || OURS.stream().anyMatch(each -> each.equalsIgnoreCase(name));
    if (!known) {
      String near = nearest(lower);
      throw new IllegalArgumentException("Option '" + name + "' is not known: "
          + (near != null ? "did you mean '" + near + "'?"
              : "use " + String.join(", ", OURS) + ", or kafka.* for the settings of Kafka's clients"));
    }
  }

  /** The known name with the fewest changes; null if most of the name would have to change. */
  private static String nearest(String name) {
    String setting = KAFKA + name.replace('_', '.').replaceFirst("^kafka\\.", "");
    if (bowstring.spark.wire.ClientOptions.isKnown(setting.substring(KAFKA.length()))) {
      return setting;
    }
    String best = null;
    int least = Math.max(2, name.length() / 3) + 1;
    for (String each : OURS) {
      int letters = distance(name, each.toLowerCase(Locale.ROOT));
      if (letters < least) {
        least = letters;
        best = each;
      }
    }
    return best;
  }

  /** Letters to insert, delete or change (Levenshtein). */
  private static int distance(String one, String other) {
    int[] row = new int[other.length() + 1];
    for (int j = 0; j <= other.length(); j++) {
      row[j] = j;
    }
    for (int i = 1; i <= one.length(); i++) {
      int diagonal = row[0];
      row[0] = i;
      for (int j = 1; j <= other.length(); j++) {
        int changed = diagonal + (one.charAt(i - 1) == other.charAt(j - 1) ? 0 : 1);
        diagonal = row[j];
        row[j] = Math.min(changed, 1 + Math.min(row[j], row[j - 1]));
      }
    }
    return row[other.length()];
  }
}
