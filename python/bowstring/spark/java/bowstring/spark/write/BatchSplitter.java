package bowstring.spark.write;

import java.io.IOException;
import java.util.List;

/** Splits a batch that a broker found too large. */
final class BatchSplitter {
  private BatchSplitter() {}

  /**
   * Returns the batch's records in two sealed batches, in order and with their timestamps; the batch itself is
   * unchanged.
   *
   * @throws SinkException.RecordTooLarge if it has only one
   */
  static List<RecordBatch> halves(RecordBatch batch, BufferPool pool, SinkOptions options, IOException refusal)
      throws IOException {
    if (batch.records() == 1) {
      throw new SinkException.RecordTooLarge("A record of " + batch.sizeBytes() + " bytes for " + batch.partition
          + " is larger than the broker accepts: raise max.message.bytes of the topic. " + refusal.getMessage());
    }
    int half = batch.records() / 2;
    RecordBatch first = part(batch, 0, half, pool, options);
    try {
      return List.of(first, part(batch, half, batch.records(), pool, options));
    } catch (IOException | RuntimeException failed) {
      first.release();
      throw failed;
    }
  }

  private static RecordBatch part(RecordBatch whole, int from, int to, BufferPool pool, SinkOptions options)
      throws IOException {
    RecordBatch part = new RecordBatch(whole.partition, pool);
    try {
      part.copyFrom(whole, from, to);
      part.seal(options);
    } catch (IOException | RuntimeException failed) {
      part.release();
      throw failed;
    }
    part.sealedNanos = whole.sealedNanos;
    return part;
  }
}
