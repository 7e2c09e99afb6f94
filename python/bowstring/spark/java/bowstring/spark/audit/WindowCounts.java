package bowstring.spark.audit;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;

/** Counts of records by topic and window of their timestamps. Not for several threads at once. */
public final class WindowCounts implements Serializable {
  private static final long serialVersionUID = 1L;

  /** A topic's window, which begins at this time in milliseconds since the epoch. */
  record Window(String topic, long startMs) implements Serializable {}

  /** Records, and the largest of their timestamps. */
  record Tally(long records, long newestMs) implements Serializable {
    Tally plus(Tally other) {
      return new Tally(records + other.records, Math.max(newestMs, other.newestMs));
    }
  }

  private final long windowMs;
  private final Map<Window, Tally> tallies = new HashMap<>();

  public WindowCounts(long windowMs) {
    this.windowMs = windowMs;
  }

  long startMs(long timestampMs) {
    return timestampMs - Math.floorMod(timestampMs, windowMs);
  }

  /** Whether timestamps from {@code low} to {@code high} lie in one window. */
  public boolean isOneWindow(long low, long high) {
    return high - startMs(low) < windowMs;
  }

  /** Adds records whose timestamps lie in the window of {@code newestMs}, which is the largest. */
  public void add(String topic, long newestMs, long records) {
    if (records > 0) {
      tallies.merge(new Window(topic, startMs(newestMs)), new Tally(records, newestMs), Tally::plus);
    }
  }

  /**
   * Adds records by the column of their timestamps.
   *
   * @param micros microseconds since the epoch, of whole milliseconds
   * @param from the first row
   * @param to the row after the last
   */
  public void addRows(String topic, long[] micros, int from, int to) {
    if (from >= to) {
      return;
    }
    long low = micros[from];
    long high = low;
    for (int row = from + 1; row < to; row++) {
      low = Math.min(low, micros[row]);
      high = Math.max(high, micros[row]);
    }
    if (isOneWindow(low / 1000, high / 1000)) {
      add(topic, high / 1000, to - from);
      return;
    }
    int begin = from;
    long newest = micros[from] / 1000;
    for (int row = from + 1; row < to; row++) {
      long timestamp = micros[row] / 1000;
      if (startMs(timestamp) != startMs(newest)) {
        add(topic, newest, row - begin);
        begin = row;
        newest = timestamp;
      }
      newest = Math.max(newest, timestamp);
    }
    add(topic, newest, to - begin);
  }

  /** Adds other counts. */
  public void addAll(WindowCounts others) {
    others.tallies.forEach((window, tally) -> tallies.merge(window, tally, Tally::plus));
  }

  /**
   * Takes other counts of the same records where they are larger: those of a read that went further.
   *
   * @return by how much they are larger
   */
  WindowCounts raise(WindowCounts others) {
    WindowCounts added = new WindowCounts(windowMs);
    others.tallies.forEach((window, tally) -> {
      Tally known = tallies.get(window);
      long more = tally.records - (known == null ? 0 : known.records);
      if (more > 0) {
        tallies.put(window, tally);
        added.tallies.put(window, new Tally(more, tally.newestMs));
      }
    });
    return added;
  }

  boolean isEmpty() {
    return tallies.isEmpty();
  }

  Map<Window, Tally> tallies() {
    return tallies;
  }
}
