package bowstring.spark.read;

import bowstring.spark.decode.AbortedTransactions;
import bowstring.spark.decode.RecordDecoder;
import bowstring.spark.local.LocalBroker;
import bowstring.spark.local.LocalConnection;
import bowstring.spark.local.LocalSegments;
import bowstring.spark.local.SegmentFile;
import bowstring.spark.wire.ClientOptions;
import bowstring.spark.wire.DirectMemory;
import bowstring.spark.wire.WireException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An offset range in the segment files of a broker on this machine, mapped read-only, a window at a time.
 *
 * <p>The broker names the readable bytes; a file is used only if it is the one that the broker names. If the broker
 * answers with an error (the leader moved, the offset is gone), {@link FetchedRegions} takes over.
 */
final class MappedRegions implements Regions {
  private static final Logger LOG = LoggerFactory.getLogger(MappedRegions.class);
  private static final long WINDOW_BYTES = 64 << 20;
  private static final int MOST_RENAMES = 10;

  private final RecordPartition input;
  private final OffsetRange range;
  private final ClientOptions options;
  private final ReadSettings settings;
  private LocalConnection connection;
  private FetchedRegions overTcp;
  private final ArrayDeque<LocalSegments.Segment> ahead = new ArrayDeque<>();
  private LocalSegments answer;
  private AbortedTransactions aborted = AbortedTransactions.none();
  private LocalSegments.Segment segment;
  private SegmentFile.Hold file;

  /** The file of the window: its lock is held while the window is read. */
  private SegmentFile.Hold usedUp;

  private long windowStart;
  private ByteBuffer window;
  private long start;
  private long next;
  private int renames;
  private long requests;
  private long bytes;

  MappedRegions(RecordPartition input, ClientOptions options, ReadSettings settings, LocalConnection connection) {
    this.input = input;
    this.range = input.range();
    this.options = options;
    this.settings = settings;
    this.connection = connection;
    this.next = range.start();
  }

  @Override
  public boolean advance(int waitMs) throws IOException {
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
    while (overTcp == null && next < range.end()) {
      unmap();
      try {
        if (file == null && !openNext()) {
          long leftMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
          if (!ask((int) Math.max(0, Math.min(leftMs, options.fetchMaxWaitMs()))) && leftMs <= 0) {
            return false;
          }
          continue;
        }
      } catch (WireException failed) {
        LOG.info("Reading {} over TCP from offset {} on: {}", range.partition(), next, failed.getMessage());
        goOverTcp();
        break;
      }
      if (mapWindow()) {
        return true;
      }
    }
    if (overTcp != null) {
      long leftMs = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
      return overTcp.advance((int) Math.max(0, leftMs));
    }
    return false;
  }

  /** Requests the segments from {@link #next} on; false if there are none yet. */
  private boolean ask(int waitMs) throws IOException {
    answer = connection.segments(range.partition(), input.topicId(), options.isReadCommitted(), next, waitMs);
    requests++;
    ahead.addAll(answer.segments());
    aborted = AbortedTransactions.none();
    for (int i = 0; i < answer.aborted().length; i += 2) {
      aborted.add(answer.aborted()[i], answer.aborted()[i + 1]);
    }
    return !ahead.isEmpty();
  }

  /** Opens the next segment of the answer; false if there is no more. */
  private boolean openNext() throws IOException {
    segment = ahead.pollFirst();
    if (segment == null) {
      return false;
    }
    if (segment.baseOffset() >= range.end()) {
      next = range.end();
      ahead.clear();
      return false;
    }
    file = SegmentFile.open(segment);
    if (file != null) {
      windowStart = segment.start();
      return true;
    }
    ahead.clear(); // renamed meanwhile: the next answer has the new name
    if (++renames > MOST_RENAMES) {
      throw new WireException("The segment file at this path is not the one that the broker reported: " + segment.path());
    }
    return false;
  }

  /** Maps the next part of the segment; false at its end. */
  private boolean mapWindow() throws IOException {
    long length = Math.min(WINDOW_BYTES, segment.end() - windowStart);
    if (length <= 0) {
      endSegment();
      return false;
    }
    window = file.map(windowStart, length);
    long whole = RecordDecoder.wholeBytes(window, 0, (int) length);
    if (whole == 0) {
      long needed = RecordDecoder.firstBatchBytes(window, 0, (int) length);
      if (needed <= length || needed > segment.end() - windowStart) {
        throw new WireException.CorruptRecords("Segment " + segment.path() + " has no complete record batch at position "
            + windowStart);
      }
      unmap();
      length = needed;
      window = file.map(windowStart, length);
      whole = length;
    }
    window.limit((int) whole);
    windowStart += whole;
    bytes += whole;
    start = next;
    next = Math.max(next, RecordDecoder.endOffset(window, 0, (int) whole));
    if (windowStart >= segment.end()) {
      endSegment();
    }
    return true;
  }

  private void endSegment() {
    usedUp = file;
    file = null;
    boolean last = ahead.isEmpty();
    next = Math.max(next, last ? answer.nextOffset() : segment.endOffset());
  }

  private void goOverTcp() throws IOException {
    closeLocal();
    OffsetRange rest = new OffsetRange(range.partition(), next, range.end());
    overTcp = new FetchedRegions(new RecordPartition(rest, input.leader(), input.topicId()), options, settings);
  }

  private void unmap() throws IOException {
    ByteBuffer mapped = window;
    window = null;
    DirectMemory.free(mapped);
    SegmentFile.Hold released = usedUp;
    usedUp = null;
    if (released != null) {
      released.close();
    }
  }

  private void closeFile() throws IOException {
    SegmentFile.Hold closed = file;
    file = null;
    if (closed != null) {
      closed.close();
    }
  }

  private void closeLocal() throws IOException {
    unmap();
    closeFile();
    LocalConnection returned = connection;
    connection = null;
    if (returned != null) {
      LocalBroker.giveBack(returned);
    }
  }

  @Override
  public ByteBuffer buffer() {
    return overTcp != null ? overTcp.buffer() : window;
  }

  @Override
  public int position() {
    return overTcp != null ? overTcp.position() : 0;
  }

  @Override
  public int limit() {
    return overTcp != null ? overTcp.limit() : window.limit();
  }

  @Override
  public boolean hasSlack() {
    return overTcp != null; // nothing beyond the bytes that the broker named may be read
  }

  @Override
  public AbortedTransactions aborted() {
    return overTcp != null ? overTcp.aborted() : aborted;
  }

  @Override
  public long startOffset() {
    return overTcp != null ? overTcp.startOffset() : start;
  }

  @Override
  public long nextOffset() {
    return overTcp != null ? overTcp.nextOffset() : next;
  }

  @Override
  public long fetches() {
    return requests + (overTcp == null ? 0 : overTcp.fetches());
  }

  @Override
  public long bytes() {
    return bytes + (overTcp == null ? 0 : overTcp.bytes());
  }

  @Override
  public long outOfRange() {
    return overTcp == null ? 0 : overTcp.outOfRange();
  }

  @Override
  public void close() throws IOException {
    try {
      closeLocal();
    } finally {
      if (overTcp != null) {
        overTcp.close();
      }
    }
  }
}
