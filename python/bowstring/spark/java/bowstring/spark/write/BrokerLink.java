package bowstring.spark.write;

import bowstring.spark.wire.ClientOptions;
import bowstring.spark.wire.Connection;
import bowstring.spark.wire.ConnectionPool;
import bowstring.spark.wire.HostPort;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.List;

/** A sender's connection to one broker, and which batches each request on it carries. */
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

  /** Notes what the request about to be sent carries. */
  void sent(List<RecordBatch> batches) {
    inFlight.addLast(batches);
  }

  /** What the oldest request without an answer carries; it has one now, or never will. */
  List<RecordBatch> answered() {
    return inFlight.removeFirst();
  }

  /** Gives the connection back to the pool, which closes it if answers are outstanding. */
  @Override
  public void close() throws IOException {
    lease.close();
  }
}
