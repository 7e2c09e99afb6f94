package bowstring.spark.write;

import bowstring.spark.wire.ClientOptions;
import bowstring.spark.wire.Connection;
import bowstring.spark.wire.ConnectionPool;
import bowstring.spark.wire.HostPort;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.List;

/** A sender's connection to one broker, and the batches of each request on it. */
final class BrokerLink implements AutoCloseable {
  final HostPort address;
  private final ConnectionPool.Lease lease;
  private final ArrayDeque<List<RecordBatch>> inFlight = new ArrayDeque<>();

  BrokerLink(HostPort address, ClientOptions options) throws IOException {
    this.address = address;
    this.lease = ConnectionPool.SHARED.borrow(address, options);
  }

  Connection connection() {
    return lease.connection();
  }

  int requestsInFlight() {
    return inFlight.size();
  }

  /** Stores the batches of the request about to be sent. */
  void sent(List<RecordBatch> batches) {
    inFlight.addLast(batches);
  }

  /** Removes the batches of the oldest open request, which was answered or never will be. */
  List<RecordBatch> answered() {
    return inFlight.removeFirst();
  }

  /** Returns the connection to the pool, which closes it if requests are open. */
  @Override
  public void close() throws IOException {
    lease.close();
  }
}
