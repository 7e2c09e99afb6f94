package bowstring.spark.write;

import bowstring.spark.OptionNames;
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
 * <p>Spark refuses its default mode, ErrorIfExists, for every sink of the newer interface; Spark's own Kafka sink
 * supports it with the older interface. So {@code save()} arrives through the older interface, and continues through
 * the newer as an append, marked with {@link #DIRECT}.
 */
public final class SavedTopics extends BaseRelation {
  /** The option that marks the append through the newer interface. */
  public static final String DIRECT = "bowstring.write.direct";

  private final SQLContext context;

  private SavedTopics(SQLContext context) {
    this.context = context;
  }

  /** Whether a table with these options is written through the newer interface at once: INSERT has no mode. */
  public static boolean isDirect(Map<String, String> options) {
    return options.containsKey(DIRECT) || OptionNames.isOfCatalog(options);
  }

  /**
   * Appends the rows.
   *
   * @throws IllegalArgumentException for modes that topics do not support
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
    throw new UnsupportedOperationException("read the topic with spark.read.format(\"bowstring\")");
  }
}
