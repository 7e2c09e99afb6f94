import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** join, member, commit, leave: subscribed consumers, each owned by a thread that polls it. */
final class Members {
    private static final Map<String, Member> OPEN = new HashMap<>();
    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private Members() {}

    static void register(Map<String, Driver.Operation> operations) {
        operations.put("join", args -> {
            OPEN.put(args.get("handle").asText(), new Member(args));
            return Driver.object();
        });
        operations.put("member", args -> OPEN.get(args.get("handle").asText()).state());
        operations.put("commit", args -> OPEN.get(args.get("handle").asText()).ask(KafkaConsumer::commitSync));
        operations.put("leave", args -> OPEN.remove(args.get("handle").asText()).leave());
    }

    /** What the polling thread is asked to do between two polls. */
    private record Job(java.util.function.Consumer<KafkaConsumer<byte[], byte[]>> work, CompletableFuture<Void> done) {}

    private static final class Member extends Thread {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final ConcurrentLinkedQueue<Job> jobs = new ConcurrentLinkedQueue<>();
        private final List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        private final List<TopicPartition> lost = new ArrayList<>();
        private final TreeSet<TopicPartition> assignment =
                new TreeSet<>(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
        private Throwable failure;
        private volatile boolean leaving;

        Member(JsonNode args) {
            Map<String, Object> config = new HashMap<>();
            config.put("group.id", args.get("group").asText());
            config.put("partition.assignment.strategy", ASSIGNORS.get(args.get("assignor").asText()));
            config.put("auto.offset.reset", "earliest");
            config.put("session.timeout.ms", args.get("session_timeout_ms").asInt());
            config.put("heartbeat.interval.ms", 500);
            if (args.hasNonNull("instance_id")) {
                config.put("group.instance.id", args.get("instance_id").asText());
            }
            if (args.hasNonNull("protocol")) {
                config.put("group.protocol", args.get("protocol").asText());
                config.remove("partition.assignment.strategy");
                config.remove("session.timeout.ms");
                config.remove("heartbeat.interval.ms");
            }
            consumer = Consumers.open(args, config);
            List<String> topics = new ArrayList<>();
            args.get("topics").forEach(topic -> topics.add(topic.asText()));
            consumer.subscribe(topics);
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            while (!leaving) {
                try {
                    poll();
                } catch (RuntimeException thrown) {
                    synchronized (this) {
                        failure = thrown;
                    }
                    return;
                }
                for (Job job = jobs.poll(); job != null; job = jobs.poll()) {
                    try {
                        job.work.accept(consumer);
                        job.done.complete(null);
                    } catch (RuntimeException thrown) {
                        job.done.completeExceptionally(thrown);
                    }
                }
            }
        }

        private void poll() {
            Iterable<ConsumerRecord<byte[], byte[]>> found = consumer.poll(Duration.ofMillis(100));
            synchronized (this) {
                found.forEach(records::add);
                for (TopicPartition each : assignment) {
                    if (!consumer.assignment().contains(each)) {
                        lost.add(each);
                    }
                }
                assignment.clear();
                assignment.addAll(consumer.assignment());
            }
        }

        ObjectNode ask(java.util.function.Consumer<KafkaConsumer<byte[], byte[]>> work) throws Exception {
            Job job = new Job(work, new CompletableFuture<>());
            jobs.add(job);
            job.done.get(30, TimeUnit.SECONDS);
            return Driver.object();
        }

        ObjectNode leave() throws Exception {
            ask(each -> {
                leaving = true;
                each.close();
            });
            join();
            return Driver.object();
        }

        synchronized ObjectNode state() {
            if (failure != null) {
                throw new IllegalStateException(failure);
            }
            ObjectNode answer = Driver.object();
            ArrayNode owned = answer.putArray("assignment");
            assignment.forEach(each -> owned.add(Driver.pair(each.topic(), each.partition())));
            ArrayNode gone = answer.putArray("lost");
            lost.forEach(each -> gone.add(Driver.pair(each.topic(), each.partition())));
            ArrayNode seen = answer.putArray("records");
            for (ConsumerRecord<byte[], byte[]> each : records) {
                seen.add(Driver.pair(each.topic(), each.partition()).add(each.offset()).add(each.value()));
            }
            return answer;
        }
    }
}
