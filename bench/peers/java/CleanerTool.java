import java.io.File;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Runs Apache Kafka's own cleaner once over the log in a directory that was closed cleanly.
 *
 * Arguments: directory, first dirty offset, time in ms, delete.retention.ms, segment.bytes, bytes of the key table.
 * Prints: the end offset of the run, seconds, and CPU seconds of the thread.
 */
public final class CleanerTool {
    private static final int IO_BYTES = 256 * 1024;
    private static final int LARGEST_MESSAGE_BYTES = 1048588;

    private CleanerTool() {
    }

    public static void main(String[] arguments) throws Exception {
        long firstDirtyOffset = Long.parseLong(arguments[1]);
        long now = Long.parseLong(arguments[2]);
        Properties settings = new Properties();
        settings.put("cleanup.policy", "compact");
        settings.put("delete.retention.ms", arguments[3]);
        settings.put("segment.bytes", arguments[4]);
        settings.put("file.delete.delay.ms", "0");
        settings.put("retention.ms", "-1");
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        UnifiedLog log = UnifiedLog.create(
            new File(arguments[0]), new LogConfig(settings), 0L, Long.MAX_VALUE, scheduler,
            new BrokerTopicStats(false), Time.SYSTEM, 300000, new ProducerStateManagerConfig(86400000, false),
            600000, new LogDirFailureChannel(1), true, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        Throttler throttler = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM);
        Cleaner cleaner = new Cleaner(
            0, new SkimpyOffsetMap(Integer.parseInt(arguments[5])), IO_BYTES, LARGEST_MESSAGE_BYTES, 0.9, throttler,
            Time.SYSTEM, partition -> { });
        long end = Math.min(log.lastStableOffset(), log.activeSegment().baseOffset());
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long cpu = threads.getCurrentThreadCpuTime();
        long started = System.nanoTime();
        Map.Entry<Long, CleanerStats> done = cleaner.doClean(
            new LogToClean(log, firstDirtyOffset, Math.max(end, firstDirtyOffset), false), now);
        double seconds = (System.nanoTime() - started) / 1e9;
        double cpuSeconds = (threads.getCurrentThreadCpuTime() - cpu) / 1e9;
        System.out.println(done.getKey() + " " + seconds + " " + cpuSeconds);
        log.close();
        scheduler.shutdown();
    }
}
