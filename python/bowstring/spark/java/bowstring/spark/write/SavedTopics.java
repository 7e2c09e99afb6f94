package bowstring.spark.write;

import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.types.StructType;

/**
 * {@code df.write.format("bowstring").save()} in any mode that Spark's Kafka sink allows.
 *
 * <p>Spark refuses its default mode, ErrorIfExists, to every sink of the newer interface; Spark's own Kafka sink takes
 * it by being one of the older interface. So {@code save()} comes in by the older one, and goes on by the newer as an
 * append, marked with {@link #DIRECT}.
 */
public final class SavedTopics extends BaseRelation {
  /** The option that marks the second way. */
  public static final String DIRECT = "bowstring.write.direct";

  /** A property that only tables of a catalog have; INSERT writes to them without a mode. */
  private static final String CATALOG_PROPERTY = "provider";

  private final SQLContext context;

  private SavedTopics(SQLContext context) {
    this.context = context;
  }

  /** Whether a table with these options is written to by the newer interface at once. */
  public static boolean isDirect(Map<String, String> options) {
    return options.containsKey(DIRECT) || options.containsKey(CATALOG_PROPERTY);
  }

  /**
   * Appends the rows.
   *
   * @throws IllegalArgumentException for modes that make no sense for topics
   */
  public static BaseRelation save(
      SQLContext context, String format, SaveMode mode, scala.collection.Map<String, String> options,
      Dataset<Row> rows) {
    if (mode == SaveMode.Overwrite || mode == SaveMode.Ignore) {
      throw new IllegalArgumentException("SaveMode " + mode + " not allowed for topics: records are only ever added. "
          + "Allowed save modes are Append and ErrorIfExists (default).");
    }
    rows.write().format(format).mode(SaveMode.Append).options(options).option(DIRECT, "true").save();
    return new SavedTopics(context);
  }

  @Override
  public SQLContext sqlContext() {
    return context;
  }

  @Override
  public StructType schema() {
    throw new UnsupportedOperationException("what was written is read with spark.read.format(\"bowstring\")");
  }
}
