package bowstring.spark.decode;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Tells which transactional batches of one fetch response belong to aborted transactions.
 *
 * <p>The response has each aborted transaction's producer and first offset; the transaction lasts until that producer's
 * next abort marker. Batches must be passed in order of offset.
 */
public final class AbortedTransactions {
  /** No transaction was aborted, or committed records were not requested. */
  public static AbortedTransactions none() {
    return new AbortedTransactions();
  }

  private record Aborted(long producerId, long firstOffset) {}

  private final List<Aborted> ahead = new ArrayList<>();
  private final Set<Long> aborting = new HashSet<>();
  private int next;

  /** Adds one entry of the response's list. */
  public void add(long producerId, long firstOffset) {
    ahead.add(new Aborted(producerId, firstOffset));
    ahead.sort(Comparator.comparingLong(Aborted::firstOffset)); // the list is short and nearly always in order
  }

  public boolean isEmpty() {
    return ahead.isEmpty();
  }

  /** Whether a transactional batch of {@code producerId} that ends at {@code lastOffset} was aborted. */
  boolean isAborted(long producerId, long lastOffset) {
    moveTo(lastOffset);
    return aborting.contains(producerId);
  }

  /** Handles an abort marker of {@code producerId} at {@code offset}. */
  void abortMarker(long producerId, long offset) {
    moveTo(offset);
    aborting.remove(producerId);
  }

  private void moveTo(long offset) {
    while (next < ahead.size() && ahead.get(next).firstOffset() <= offset) {
      aborting.add(ahead.get(next++).producerId());
    }
  }
}
