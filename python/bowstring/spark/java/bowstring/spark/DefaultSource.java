package bowstring.spark;

import bowstring.spark.read.RecordTable;
import bowstring.spark.read.SourceSchema;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Provides {@code format("bowstring")} and SQL's {@code USING bowstring}: topics of Bowstring or Apache Kafka, with the
 * options and the schema of Spark's Kafka source.
 */
public final class DefaultSource implements TableProvider, DataSourceRegister {
  @Override
  public String shortName() {
    return "bowstring";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    OptionNames.check(options);
    return SourceSchema.of(options);
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new RecordTable(schema, properties);
  }
}
