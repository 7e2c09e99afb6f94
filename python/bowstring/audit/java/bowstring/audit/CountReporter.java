package bowstring.audit;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.serialization.StringSerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Sends counts to the counts topic every report interval, and the rest on close. */
final class CountReporter {
    private static final Logger LOG = LoggerFactory.getLogger(CountReporter.class);
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(10);

    final WindowCounts counts;
    private final String tier;
    private final String topic;
    private final long windowMs;
    private final String role;
    private final String client;
    private final String group;
    private final String host;
    private final String instance = UUID.randomUUID().toString().replace("-", "").substring(0, 16);
    private final KafkaProducer<String, String> producer;
    private final ScheduledExecutorService timer;

    /** Reads the settings audit.* and those of the connection out of a client's own. */
    CountReporter(Map<String, ?> configs, String role) {
        this.role = role;
        tier = text(configs, "audit.tier", null);
        topic = text(configs, "audit.topic", "audit-counts");
        windowMs = milliseconds(configs, "audit.window.ms", "600000");
        long intervalMs = milliseconds(configs, "audit.report.interval.ms", "10000");
        client = text(configs, "client.id", role);
        group = text(configs, "group.id", "");
        host = hostName();
        counts = new WindowCounts(windowMs);
        producer = new KafkaProducer<>(connection(configs), new StringSerializer(), new StringSerializer());
        timer = Executors.newSingleThreadScheduledExecutor(task -> {
            Thread thread = new Thread(task, "bowstring-audit");
            thread.setDaemon(true);
            return thread;
        });
        timer.scheduleAtFixedRate(this::reportSafely, intervalMs, intervalMs, TimeUnit.MILLISECONDS);
    }

    private static String text(Map<String, ?> configs, String name, String otherwise) {
        Object given = configs.get(name);
        if (given == null && otherwise == null) {
            throw new ConfigException(name + " is missing: give the name of the cluster or stage that counts");
        }
        return given == null ? otherwise : given.toString();
    }

    private static long milliseconds(Map<String, ?> configs, String name, String otherwise) {
        String given = text(configs, name, otherwise);
        try {
            long found = Long.parseLong(given.trim());
            if (found > 0) {
                return found;
            }
        } catch (NumberFormatException error) {
            // refused below
        }
        throw new ConfigException(name, given, "it must be a number of milliseconds above 0");
    }

    private Map<String, Object> connection(Map<String, ?> configs) {
        Map<String, Object> found = new HashMap<>();
        configs.forEach((name, value) -> {
            if (value != null
                    && (name.startsWith("security.") || name.startsWith("ssl.") || name.startsWith("sasl."))) {
                found.put(name, value);
            }
        });
        Object servers = configs.get("audit.bootstrap.servers");
        found.put("bootstrap.servers", servers != null ? servers : configs.get("bootstrap.servers"));
        found.put("client.id", client + "-audit");
        found.put("buffer.memory", 4 << 20);
        found.put("max.block.ms", CLOSE_TIMEOUT.toMillis());
        return found;
    }

    private static String hostName() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException error) {
            return "unknown";
        }
    }

    private void reportSafely() {
        try {
            report();
        } catch (RuntimeException error) {
            LOG.warn("Counts for the audit were not reported, and are sent again", error);
        }
    }

    private void report() {
        long now = System.currentTimeMillis();
        for (WindowCounts.Change change : counts.changes()) {
            String counted = change.window().topic();
            if (counted.equals(topic) || counted.startsWith("__")) {
                continue;
            }
            String name = change.generation() == 0 ? instance : instance + "." + change.generation();
            String key = String.join("|", tier, host, client, name, counted, Long.toString(change.window().startMs()));
            String value = "{\"v\":1,\"tier\":" + quoted(tier) + ",\"role\":" + quoted(role) + ",\"group\":" + quoted(group)
                    + ",\"host\":" + quoted(host) + ",\"client\":" + quoted(client) + ",\"instance\":" + quoted(name)
                    + ",\"topic\":" + quoted(counted) + ",\"window_ms\":" + windowMs
                    + ",\"start_ms\":" + change.window().startMs() + ",\"count\":" + change.count()
                    + ",\"newest_ms\":" + change.newestMs() + ",\"sent_ms\":" + now + "}";
            send(new ProducerRecord<>(topic, key, value), change.window());
        }
    }

    private void send(ProducerRecord<String, String> report, WindowCounts.Window window) {
        try {
            producer.send(report, (metadata, error) -> lost(error, window));
        } catch (KafkaException error) {
            lost(error, window);
        }
    }

    private void lost(Exception error, WindowCounts.Window window) {
        if (error != null) {
            counts.change(window);
            LOG.warn("A count for the audit was not sent to {}, and is sent again: {}", topic, error.toString());
        }
    }

    /** A JSON string. */
    private static String quoted(String text) {
        StringBuilder made = new StringBuilder("\"");
        for (int i = 0; i < text.length(); i++) {
            char each = text.charAt(i);
            if (each == '"' || each == '\\') {
                made.append('\\').append(each);
            } else if (each < ' ' || Character.isSurrogate(each)) {
                made.append(String.format("\\u%04x", (int) each));
            } else {
                made.append(each);
            }
        }
        return made.append('"').toString();
    }

    /** Reports what is counted; waits ten seconds at most. */
    void close() {
        timer.shutdown();
        try {
            timer.awaitTermination(CLOSE_TIMEOUT.toSeconds(), TimeUnit.SECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        reportSafely();
        producer.close(CLOSE_TIMEOUT);
    }
}
