package bowstring.spark.read;

import bowstring.spark.local.LocalBroker;
import bowstring.spark.local.LocalReadsUnavailable;
import bowstring.spark.wire.ClientOptions;
import bowstring.spark.wire.ClusterClient;
import bowstring.spark.wire.HostPort;
import java.io.IOException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Chooses the source of a task's records. */
final class RegionSources {
  private static final Logger LOG = LoggerFactory.getLogger(RegionSources.class);

  private RegionSources() {}

  /**
   * Opens mapped files if requested and available, otherwise the leader over TCP.
   *
   * @throws LocalReadsUnavailable if the option local is true and the files are unavailable
   */
  static Regions open(RecordPartition input, ClientOptions options, ReadSettings settings) throws IOException {
    if (settings.local() == ReadSettings.LocalMode.FALSE) {
      return new FetchedRegions(input, options, settings);
    }
    try {
      HostPort leader = input.leader() != null ? input.leader()
          : new ClusterClient(options).leader(input.range().partition());
      Regions mapped = new MappedRegions(input, options, settings, LocalBroker.connect(leader, options));
      LOG.debug("Reading {} from mapped files", input.range());
      return mapped;
    } catch (LocalReadsUnavailable elsewhere) {
      if (settings.local() == ReadSettings.LocalMode.TRUE) {
        throw elsewhere;
      }
      LOG.debug("Reading {} over TCP: {}", input.range(), elsewhere.getMessage());
      return new FetchedRegions(input, options, settings);
    }
  }
}
