package bowstring.spark.read;

import bowstring.spark.wire.ClientOptions;
import java.io.IOException;

/** Chooses where a task's records come from. */
final class RegionSources {
  private RegionSources() {}

  /** Mapped files where they are wanted and can be had, else the leader over TCP. */
  static Regions open(RecordPartition input, ClientOptions options, ReadSettings settings) throws IOException {
    return new FetchedRegions(input, options, settings);
  }
}
