import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A connector that writes the numbers from 0 to `most` to a topic, and fails at `fails.at`. */
public final class CountingSource extends SourceConnector {
    static final ConfigDef CONFIG = new ConfigDef()
        .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The topic.")
        .define("most", ConfigDef.Type.LONG, 10L, ConfigDef.Range.atLeast(0), ConfigDef.Importance.LOW, "The last number.")
        .define("fails.at", ConfigDef.Type.LONG, -1L, ConfigDef.Importance.LOW, "The number it fails at.")
        .define("pin", ConfigDef.Type.PASSWORD, "", ConfigDef.Importance.LOW, "A secret that its name does not show.");
    private Map<String, String> given;

    @Override
    public String version() {
        return "1";
    }

    @Override
    public ConfigDef config() {
        return CONFIG;
    }

    @Override
    public void start(Map<String, String> config) {
        given = config;
    }

    @Override
    public void stop() {}

    @Override
    public Class<? extends Task> taskClass() {
        return CountingTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return new ArrayList<>(List.of(given));
    }

    /** Its one task. */
    public static final class CountingTask extends SourceTask {
        private String topic;
        private String pin;
        private long next;
        private long most;
        private long failsAt;

        @Override
        public String version() {
            return "1";
        }

        @Override
        public void start(Map<String, String> config) {
            Map<String, Object> parsed = CONFIG.parse(config);
            topic = (String) parsed.get("topic");
            pin = config.getOrDefault("pin", "");
            most = (long) parsed.get("most");
            failsAt = (long) parsed.get("fails.at");
            Map<String, Object> stored = context.offsetStorageReader().offset(Map.of("numbers", "all"));
            next = stored == null ? 0 : (long) stored.get("next");
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (next == failsAt) {
                throw new ConnectException("number " + next + " is refused with " + pin);
            }
            if (next > most) {
                Thread.sleep(100);
                return null;
            }
            long number = next++;
            return List.of(new SourceRecord(Map.of("numbers", "all"), Map.of("next", next), topic, null, number));
        }

        @Override
        public void stop() {}
    }
}
