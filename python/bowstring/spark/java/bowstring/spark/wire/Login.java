package bowstring.spark.wire;

import java.io.IOException;

/** Logs a connection in: SaslHandshake, then the exchange of the mechanism in SaslAuthenticate (KIP-43, KIP-152). */
final class Login {
  private static final short UNSUPPORTED_SASL_MECHANISM = 33;
  private static final int MOST_ROUNDS = 10;

  private Login() {}

  /**
   * Runs one login.
   *
   * @return how long the session lasts in milliseconds (KIP-368), 0 for ever
   * @throws WireException.AuthenticationFailed if the broker refuses, or does not prove who it is
   */
  static long run(Connection connection, SaslExchange exchange) throws IOException {
    String where = "broker " + connection.address + " with " + exchange.mechanism;
    RequestWriter handshake;
    try {
      handshake = connection.request(ApiKey.SASL_HANDSHAKE);
    } catch (WireException.UnsupportedByBroker none) {
      throw new WireException.AuthenticationFailed("Broker " + connection.address + " does not offer SASL: check "
          + "kafka.security.protocol and the port", none);
    }
    ResponseReader answer = connection.call(handshake.string(exchange.mechanism));
    short code = answer.int16();
    if (code != 0) {
      StringBuilder offered = new StringBuilder();
      for (int n = answer.array(); n > 0; n--) {
        offered.append(offered.isEmpty() ? "" : ", ").append(answer.string());
      }
      throw new WireException.AuthenticationFailed(code == UNSUPPORTED_SASL_MECHANISM
          ? "Broker " + connection.address + " does not offer " + exchange.mechanism + ", but " + offered
              + ": check kafka.sasl.mechanism"
          : "Broker " + connection.address + " refuses to begin a login (error " + code
              + "): check kafka.security.protocol", null);
    }
    byte[] message = exchange.first();
    for (int round = 0; round < MOST_ROUNDS; round++) {
      RequestWriter request = connection.request(ApiKey.SASL_AUTHENTICATE);
      request.bytes(message);
      answer = connection.call(request);
      code = answer.int16();
      String told = answer.string();
      if (code != 0) {
        throw new WireException.AuthenticationFailed("Logging in at " + where + " failed: "
            + (told != null ? told : "error " + code) + ". Check user name and password, the token, or the broker's log", null);
      }
      byte[] challenge = answer.bytes();
      long lifetimeMs = answer.version() >= 1 ? answer.int64() : 0;
      try {
        message = exchange.next(challenge);
      } catch (WireException failed) {
        throw new WireException.AuthenticationFailed("Logging in at " + where + " failed: " + failed.getMessage(), failed);
      }
      if (message == null) {
        return lifetimeMs;
      }
    }
    throw new WireException.AuthenticationFailed("Logging in at " + where + " does not end", null);
  }
}
