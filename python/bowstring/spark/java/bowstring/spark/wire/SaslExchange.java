package bowstring.spark.wire;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Supplier;
import javax.crypto.Mac;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.crypto.spec.SecretKeySpec;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslClient;

/** The client's side of one exchange of a SASL mechanism. */
abstract class SaslExchange {
  /** The mechanism's name. */
  final String mechanism;

  private SaslExchange(String mechanism) {
    this.mechanism = mechanism;
  }

  /** The first message. */
  abstract byte[] first() throws IOException;

  /** The answer to the server's message; null when the client is content. */
  abstract byte[] next(byte[] challenge) throws IOException;

  private static WireException refused(String why) {
    return new WireException.AuthenticationFailed(why, null);
  }

  /** RFC 4616. */
  static SaslExchange plain(String user, String password) {
    return new SaslExchange("PLAIN") {
      @Override
      byte[] first() {
        return ("\0" + user + "\0" + password).getBytes(StandardCharsets.UTF_8);
      }

      @Override
      byte[] next(byte[] challenge) throws IOException {
        if (challenge.length > 0) {
          throw refused("the broker sent a challenge, which PLAIN does not have");
        }
        return null;
      }
    };
  }

  /** RFC 7628. */
  static SaslExchange bearer(Supplier<String> token, Map<String, String> extensions) {
    return new SaslExchange("OAUTHBEARER") {
      @Override
      byte[] first() {
        StringBuilder text = new StringBuilder("n,,\1auth=Bearer ").append(token.get()).append('\1');
        extensions.forEach((name, value) -> text.append(name).append('=').append(value).append('\1'));
        return text.append('\1').toString().getBytes(StandardCharsets.UTF_8);
      }

      @Override
      byte[] next(byte[] challenge) {
        return challenge.length == 0 ? null : new byte[] {1}; // asks for the broker's final word
      }
    };
  }

  /** RFC 4752: Kerberos, without a security layer. */
  static SaslExchange gssapi(KerberosTickets tickets, String service, String host) {
    return new SaslExchange("GSSAPI") {
      private SaslClient client;

      @Override
      byte[] first() throws IOException {
        return tickets.with(() -> {
          client = Sasl.createSaslClient(new String[] {mechanism}, null, service, host, Map.of(Sasl.QOP, "auth"), null);
          return client.evaluateChallenge(new byte[0]);
        });
      }

      @Override
      byte[] next(byte[] challenge) throws IOException {
        if (!client.isComplete()) {
          return tickets.with(() -> {
            byte[] answer = client.evaluateChallenge(challenge);
            return answer == null ? new byte[0] : answer;
          });
        }
        if (challenge.length > 0) {
          throw refused("the broker sent a message after the end of the exchange");
        }
        return null;
      }
    };
  }

  /** RFC 5802, RFC 7677. */
  static final class Scram extends SaslExchange {
    private static final int MOST_ITERATIONS = 1_000_000;
    private static final int FEWEST_ITERATIONS = 4_096;

    private final String hash;
    private final String password;
    private final String nonce;
    private final String bare;
    private byte[] signature;
    private boolean proved;

    Scram(String mechanism, String user, String password, boolean isToken) {
      super(mechanism);
      hash = mechanism.endsWith("512") ? "SHA512" : "SHA256";
      this.password = password;
      byte[] random = new byte[24];
      new SecureRandom().nextBytes(random);
      nonce = Base64.getUrlEncoder().encodeToString(random);
      bare = "n=" + user.replace("=", "=3D").replace(",", "=2C") + ",r=" + nonce + (isToken ? ",tokenauth=true" : "");
    }

    @Override
    byte[] first() {
      return ("n,," + bare).getBytes(StandardCharsets.UTF_8);
    }

    @Override
    byte[] next(byte[] challenge) throws IOException {
      String text = new String(challenge, StandardCharsets.UTF_8);
      Map<String, String> given = new HashMap<>();
      for (String part : text.split(",")) {
        int at = part.indexOf('=');
        if (at > 0) {
          given.put(part.substring(0, at), part.substring(at + 1));
        }
      }
      if (given.containsKey("e")) {
        throw refused("the broker refuses user name or password");
      }
      try {
        if (!proved) {
          proved = true;
          return prove(text, given);
        }
        if (!MessageDigest.isEqual(signature, Base64.getDecoder().decode(given.getOrDefault("v", "")))) {
          throw refused("the broker does not prove that it has the user's password: it may be an impostor");
        }
        return null;
      } catch (GeneralSecurityException | IllegalArgumentException malformed) {
        throw new WireException.AuthenticationFailed("the broker's SCRAM message is malformed", malformed);
      }
    }

    private byte[] prove(String text, Map<String, String> given) throws IOException, GeneralSecurityException {
      String both = given.getOrDefault("r", "");
      int iterations = Integer.parseInt(given.getOrDefault("i", "0"));
      if (!both.startsWith(nonce) || both.length() == nonce.length()) {
        throw refused("the broker's SCRAM message belongs to another exchange");
      }
      if (iterations < FEWEST_ITERATIONS || iterations > MOST_ITERATIONS) {
        throw refused("the broker asks for " + iterations + " SCRAM iterations");
      }
      byte[] salted = salted(Base64.getDecoder().decode(given.getOrDefault("s", "")), iterations);
      String last = "c=biws,r=" + both;
      byte[] messages = (bare + "," + text + "," + last).getBytes(StandardCharsets.UTF_8);
      byte[] clientKey = hmac(salted, "Client Key".getBytes(StandardCharsets.UTF_8));
      byte[] storedKey = MessageDigest.getInstance(hash.replace("SHA", "SHA-")).digest(clientKey);
      byte[] proof = hmac(storedKey, messages);
      for (int i = 0; i < proof.length; i++) {
        proof[i] ^= clientKey[i];
      }
      signature = hmac(hmac(salted, "Server Key".getBytes(StandardCharsets.UTF_8)), messages);
      return (last + ",p=" + Base64.getEncoder().encodeToString(proof)).getBytes(StandardCharsets.UTF_8);
    }

    private byte[] salted(byte[] salt, int iterations) throws GeneralSecurityException {
      int bits = hash.equals("SHA512") ? 512 : 256;
      return SecretKeyFactory.getInstance("PBKDF2WithHmac" + hash)
          .generateSecret(new PBEKeySpec(password.toCharArray(), salt, iterations, bits)).getEncoded();
    }

    private byte[] hmac(byte[] key, byte[] data) throws GeneralSecurityException {
      Mac mac = Mac.getInstance("Hmac" + hash);
      mac.init(new SecretKeySpec(key, "Hmac" + hash));
      return mac.doFinal(data);
    }
  }
}
