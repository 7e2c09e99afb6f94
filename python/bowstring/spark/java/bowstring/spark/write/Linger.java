package bowstring.spark.write;

import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/** The timer of streams' writers: in real-time mode a task runs for minutes, and its rows must not wait for its end. */
final class Linger {
  private static final int THREADS = 2;
  private static final ScheduledExecutorService CLOCK = Executors.newScheduledThreadPool(THREADS, task -> {
    Thread thread = new Thread(task, "bowstring-sink-linger");
    thread.setDaemon(true);
    return thread;
  });

  private Linger() {}

  /** Runs {@code send} every {@code lingerMs} milliseconds (at least one) until it is cancelled. */
  static ScheduledFuture<?> start(Runnable send, long lingerMs) {
    long periodMs = Math.max(1, lingerMs);
    return CLOCK.scheduleWithFixedDelay(send, periodMs, periodMs, TimeUnit.MILLISECONDS);
  }
}
