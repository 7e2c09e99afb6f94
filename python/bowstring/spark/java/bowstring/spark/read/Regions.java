package bowstring.spark.read;

import bowstring.spark.decode.AbortedTransactions;
import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * The record batches of one partition's offset range, piece by piece, from wherever they come: a broker's fetch
 * responses, or mapped segment files.
 *
 * <p>A region is valid until {@link #advance} or {@link #close}. It may begin with records before the range and end with
 * a batch that is cut off.
 */
interface Regions extends Closeable {
  /**
   * Makes the next region current.
   *
   * @return false at the end of the range, or when {@code waitMs} passed without new records
   */
  boolean advance(int waitMs) throws IOException;

  /** Memory outside the heap; indexes {@link #position} to {@link #limit} are the region's. */
  ByteBuffer buffer();

  int position();

  int limit();

  /** Whether {@code DirectMemory.SLACK} bytes behind the limit may be read. */
  boolean hasSlack();

  /** Aborted transactions among the region's records. */
  AbortedTransactions aborted();

  /** The first offset wanted of the current region; it may hold records before it. */
  long startOffset();

  /** The next offset wanted, once the current region is used up. */
  long nextOffset();

  /** Requests that brought regions so far. */
  long fetches();

  /** Bytes of regions so far. */
  long bytes();

  /** Times the offset wanted was gone or not there yet. */
  long outOfRange();
}
