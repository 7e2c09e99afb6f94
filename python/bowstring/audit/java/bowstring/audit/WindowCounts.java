package bowstring.audit;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Counts records by topic and window of their timestamps. Counts only grow, so the newest report replaces others. */
final class WindowCounts {
    /** Topics and windows of which counts are kept, until those that are reported are forgotten. */
    static final int KEPT_MAX = 10_000;

    private final long windowMs;
    private final Map<Window, Tally> tallies = new HashMap<>();
    private long generation;

    record Window(String topic, long startMs) {}

    /** A count to report. */
    record Change(Window window, long generation, long count, long newestMs) {}

    private static final class Tally {
        final long generation;
        long count;
        long newestMs = Long.MIN_VALUE;
        boolean changed;

        Tally(long generation) {
            this.generation = generation;
        }
    }

    WindowCounts(long windowMs) {
        this.windowMs = windowMs;
    }

    synchronized void add(String topic, long timestampMs, long count) {
        Window window = new Window(topic, timestampMs - Math.floorMod(timestampMs, windowMs));
        Tally tally = tallies.computeIfAbsent(window, absent -> new Tally(generation));
        tally.count += count;
        tally.newestMs = Math.max(tally.newestMs, timestampMs);
        tally.changed = true;
    }

    /** What has changed since the last call. */
    synchronized List<Change> changes() {
        List<Change> found = new ArrayList<>();
        tallies.forEach((window, tally) -> {
            if (tally.changed) {
                tally.changed = false;
                found.add(new Change(window, tally.generation, tally.count, tally.newestMs));
            }
        });
        if (tallies.size() > KEPT_MAX) {
            // Records that come later for these windows begin a new generation at 0.
            generation++;
            tallies.keySet().stream()
                    .sorted((a, b) -> Long.compare(a.startMs, b.startMs))
                    .limit(KEPT_MAX / 2)
                    .toList()
                    .forEach(tallies::remove);
        }
        return found;
    }

    /** Makes changes() return a count again: its report was lost. */
    synchronized void change(Window window) {
        Tally tally = tallies.get(window);
        if (tally != null) {
            tally.changed = true;
        }
    }
}
