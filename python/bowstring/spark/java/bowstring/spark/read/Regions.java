package bowstring.spark.read;

import bowstring.spark.decode.AbortedTransactions;
import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * The record batches of one partition's offset range, piece by piece, from a broker's fetch responses or mapped segment
 * files.
 *
 * <p>A region is valid until {@link #advance} or {@link #close}. It may begin with records before the range and end
 * with an incomplete batch.
 */
interface Regions extends Closeable {
  /**
   * Makes the next region current.
   *
   * @return false at the end of the range, or when {@code waitMs} passed without new records
   */
  boolean advance(int waitMs) throws IOException;

  /** Memory outside the heap; the region is at the indexes {@link #position} to {@link #limit}. */
  ByteBuffer buffer();

  int position();

  int limit();

  /** Whether {@code DirectMemory.SLACK} bytes after the limit may be read. */
  boolean hasSlack();

  /** Aborted transactions among the region's records. */
  AbortedTransactions aborted();

  /** The first wanted offset of the current region, which may hold earlier records. */
  long startOffset();

  /** The next wanted offset after the current region. */
  long nextOffset();

  /** Number of requests that returned regions so far. */
  long fetches();

  /** Bytes of regions so far. */
  long bytes();

  /** How often the wanted offset was gone or not yet written. */
  long outOfRange();
}
