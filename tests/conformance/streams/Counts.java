import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words, exactly once, by applications with different settings in one process.
 *
 * <p>Arguments: bootstrap, a directory for the stores, then for each application its id and settings as {@code
 * id,name=value,…}. Application {@code id} reads {@code id-words}, counts by value through a repartition topic and a
 * changelog, and writes every count to {@code id-counts}. A line for each change of state goes to standard output. Ends
 * when standard input does.
 */
public final class Counts {
    private Counts() {}

    private static Topology topology(String id) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> words = builder.stream(id + "-words", Consumed.with(Serdes.String(), Serdes.String()));
        words.groupBy((key, word) -> word, Grouped.with("by-word", Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to(id + "-counts", Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private static KafkaStreams application(String bootstrap, Path stores, String[] given) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, given[0]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, stores.resolve(given[0]).toString());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 5000);
        settings.put(StreamsConfig.producerPrefix("linger.ms"), 5);
        for (int index = 1; index < given.length; index++) {
            String[] setting = given[index].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        KafkaStreams streams = new KafkaStreams(topology(given[0]), settings);
        streams.setStateListener((now, before) -> System.out.println(given[0] + " " + now));
        streams.setUncaughtExceptionHandler(thrown -> {
            System.out.println(given[0] + " failed: " + thrown);
            thrown.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        return streams;
    }

    public static void main(String[] arguments) throws Exception {
        List<KafkaStreams> running = new ArrayList<>();
        for (int index = 2; index < arguments.length; index++) {
            running.add(application(arguments[0], Path.of(arguments[1]), arguments[index].split(",")));
        }
        running.forEach(KafkaStreams::start);
        while (System.in.read() >= 0) {
            // until the test closes it
        }
        running.forEach(KafkaStreams::close);
    }
}
