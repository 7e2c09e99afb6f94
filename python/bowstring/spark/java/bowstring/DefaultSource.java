package bowstring;

import bowstring.spark.checkpoint.Managers;
import bowstring.spark.write.SavedTopics;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Provides {@code format("bowstring")}: the columnar engine, or the Python engine if the option {@code engine} says so.
 *
 * <p>Spark looks a name up in this order: services of {@code DataSourceRegister}, the class {@code
 * <name>.DefaultSource}, sources written in Python. It refuses a name that is both a service and written in Python as
 * ambiguous (FOUND_MULTIPLE_DATA_SOURCES), so the jar must not register a service of this name. Because this class is
 * called {@code bowstring.DefaultSource}, Spark uses the columnar engine wherever the jar is present, and the Python
 * engine elsewhere.
 */
public class DefaultSource implements TableProvider, CreatableRelationProvider {
  private static final String NAME = "bowstring";
  private static final String ENGINE = "engine";

  private TableProvider chosen;

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return choose(options).inferSchema(options);
  }

  @Override
  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    return choose(options).inferPartitioning(options);
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
    Managers.serve();
    return choose(new CaseInsensitiveStringMap(options)).getTable(schema, partitioning, options);
  }

  /** A schema may be given: the columns that are needed. */
  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  /** {@code df.write.save()} without mode("append"); see {@link SavedTopics}. */
  @Override
  public BaseRelation createRelation(
      SQLContext context,
      SaveMode mode,
      scala.collection.immutable.Map<String, String> options,
      Dataset<Row> rows) {
    return SavedTopics.save(context, NAME, mode, options, rows);
  }

  private TableProvider choose(CaseInsensitiveStringMap options) {
    if (chosen == null) {
      String engine = options.getOrDefault(ENGINE, "columnar").trim();
      chosen =
          switch (engine.toLowerCase(Locale.ROOT)) {
            case "python" -> python();
            case "columnar", "auto" -> new bowstring.spark.DefaultSource();
            default ->
                throw new IllegalArgumentException(
                    "option engine is '" + engine + "', it must be columnar or python");
          };
    }
    return chosen;
  }

  private static TableProvider python() {
    PythonDataSourceV2 python = new PythonDataSourceV2();
    python.setShortName(NAME);
    return python;
  }
}
