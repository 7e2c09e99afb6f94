package bowstring.spark.audit;

import bowstring.spark.write.TextRecords;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Sends counts from the driver to the counts topic, every report interval and when the application ends.
 *
 * <p>A report is of a unit that Spark repeats as a whole: a batch of a stream, a query, a write. Its key names the unit,
 * so that the report of a repetition replaces the earlier one. The form is that of Bowstring's clients
 * (clients/producer/count_reporter.py).
 */
public final class CountReports {
  private static final Logger LOG = LoggerFactory.getLogger(CountReports.class);

  /** Instead of a host: the same unit may run anywhere. */
  private static final String HOST = "spark";

  private static final long PATIENCE_MS = 10_000;
  private static final int PENDING_MAX = 10_000;
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Guarded by the class. */
  private static final Map<AuditOptions, CountReports> ALL = new LinkedHashMap<>();

  private static final Set<String> APPLICATIONS = new HashSet<>();

  private final AuditOptions options;

  /** Key and value of records that were not sent yet. Guarded by this, as all below. */
  private Map<String, String> pending = new LinkedHashMap<>();

  private boolean isSending;
  private boolean isHurried;
  private boolean hasThread;

  /** Whether the last records were not taken in time: nothing waits for reports then. */
  private boolean isDown;

  private CountReports(AuditOptions options) {
    this.options = options;
  }

  /** The reports of sources or sinks with these options. */
  public static synchronized CountReports of(AuditOptions options) {
    return ALL.computeIfAbsent(options, CountReports::new);
  }

  /** Sends what is left when the application of a context ends, and waits some seconds. */
  public static synchronized void reportAtEnd(SparkContext context) {
    if (APPLICATIONS.add(context.applicationId())) {
      context.addSparkListener(new SparkListener() {
        @Override
        public void onApplicationEnd(SparkListenerApplicationEnd end) {
          finish();
        }
      });
    }
  }

  private static void finish() {
    List<CountReports> all;
    synchronized (CountReports.class) {
      all = new ArrayList<>(ALL.values());
    }
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
    all.forEach(CountReports::hurry);
    for (CountReports each : all) {
      if (!each.await(deadline)) {
        LOG.warn("Counts were not reported within {} ms; the audit may miss them", PATIENCE_MS);
      }
    }
  }

  /** Reports the counts of a unit, all of them, instead of those that it had before. */
  public void put(String unit, WindowCounts counts) {
    long now = System.currentTimeMillis();
    Map<String, String> made = new LinkedHashMap<>();
    counts.tallies().forEach((window, tally) -> {
      if (options.counts(window.topic())) {
        made.put(key(unit, window), value(unit, window, tally, now));
      }
    });
    if (made.isEmpty()) {
      return;
    }
    synchronized (this) {
      pending.putAll(made);
      bound();
      if (!hasThread) {
        hasThread = true;
        Thread thread = new Thread(this::run, "bowstring-audit");
        thread.setDaemon(true);
        thread.start();
      }
    }
  }

  /** Sends what was not sent yet before it returns; waits some seconds, and not at all while reports fail. */
  public synchronized void sendNow() {
    if (isDown) {
      return;
    }
    hurry();
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(PATIENCE_MS);
    try {
      while ((!pending.isEmpty() || isSending) && !isDown) {
        long leftMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
        isDown = leftMs <= 0;
        if (!isDown) {
          wait(leftMs);
        }
      }
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
  }

  private String key(String unit, WindowCounts.Window window) {
    return String.join("|", options.tier(), HOST, options.client(), unit, window.topic(),
        Long.toString(window.startMs()));
  }

  private String value(String unit, WindowCounts.Window window, WindowCounts.Tally tally, long now) {
    ObjectNode value = JSON.createObjectNode();
    value.put("v", 1).put("tier", options.tier()).put("role", options.role()).put("group", options.group());
    value.put("host", HOST).put("client", options.client()).put("instance", unit).put("topic", window.topic());
    value.put("window_ms", options.windowMs()).put("start_ms", window.startMs()).put("count", tally.records());
    value.put("newest_ms", tally.newestMs()).put("sent_ms", now);
    try {
      return JSON.writeValueAsString(value);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** Forgets the oldest reports where nobody takes them. */
  private void bound() {
    var oldest = pending.entrySet().iterator();
    for (int more = pending.size() - PENDING_MAX; more > 0; more--) {
      oldest.next();
      oldest.remove();
    }
  }

  private synchronized void hurry() {
    isHurried = hasThread;
    notifyAll();
  }

  private synchronized boolean await(long deadline) {
    try {
      while (!pending.isEmpty() || isSending) {
        long leftMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
        if (leftMs <= 0) {
          return false;
        }
        wait(leftMs);
      }
      return true;
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /** The thread: sends at the end of each interval, and ends when there was nothing to send. */
  private void run() {
    while (true) {
      Map<String, String> sent;
      synchronized (this) {
        if (!pauseUntilDue()) {
          return;
        }
        sent = pending;
        pending = new LinkedHashMap<>();
        isSending = true;
        isHurried = false;
      }
      boolean failed = !send(sent);
      synchronized (this) {
        if (failed) { // newer reports of the same units stay
          sent.putAll(pending);
          pending = sent;
          bound();
          isHurried = false;
        }
        isDown = failed;
        isSending = false;
        notifyAll();
      }
    }
  }

  /** Waits; false if there is nothing to send, so that the thread ends. Holds the lock. */
  private boolean pauseUntilDue() {
    long due = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(options.intervalMs());
    try {
      for (long leftMs = options.intervalMs(); leftMs > 0 && !isHurried;
          leftMs = TimeUnit.NANOSECONDS.toMillis(due - System.nanoTime())) {
        wait(leftMs);
      }
    } catch (InterruptedException unexpected) {
      Thread.currentThread().interrupt();
      pending.clear();
    }
    hasThread = !pending.isEmpty();
    if (!hasThread) {
      isHurried = false;
      notifyAll();
    }
    return hasThread;
  }

  private boolean send(Map<String, String> records) {
    try {
      TextRecords.send(options.connection(), options.topic(), records);
      return true;
    } catch (IOException | RuntimeException failed) {
      LOG.warn("Counts for the audit were not sent to {}, and are sent again: {}", options.topic(), failed.toString());
      return false;
    }
  }
}
