package bowstring.spark.wire;

import java.io.IOException;
import java.security.PrivilegedActionException;
import java.security.PrivilegedExceptionAction;
import java.util.Map;
import java.util.TreeMap;
import javax.security.auth.Subject;
import javax.security.auth.kerberos.KerberosTicket;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import javax.security.auth.login.LoginContext;
import javax.security.auth.login.LoginException;

/** The Kerberos tickets of a source or sink: from a ticket cache, or with a keytab; new ones before they end. */
final class KerberosTickets {
  private static final String MODULE = "com.sun.security.auth.module.Krb5LoginModule";
  /** The part of the tickets' life after which there are new ones, as in Kafka's clients. */
  private static final double RENEWAL = 0.8;

  private final Map<String, String> options;
  private Subject subject;
  private long renewAtMs;

  /** @param options of Java's Krb5LoginModule */
  KerberosTickets(Map<String, String> options) {
    this.options = new TreeMap<>(options);
    this.options.put("doNotPrompt", "true");
  }

  /** Does something with the tickets. May wait for a KDC. */
  <T> T with(PrivilegedExceptionAction<T> action) throws IOException {
    try {
      return doAs(tickets(), action);
    } catch (PrivilegedActionException failed) {
      throw refused(failed.getCause());
    } catch (LoginException failed) {
      throw refused(failed);
    }
  }

  @SuppressWarnings("removal") // Java 17 has nothing else
  private static <T> T doAs(Subject subject, PrivilegedExceptionAction<T> action) throws PrivilegedActionException {
    return Subject.doAs(subject, action);
  }

  private static WireException refused(Throwable why) {
    Throwable root = why;
    while (root.getCause() != null) {
      root = root.getCause();
    }
    return new WireException.AuthenticationFailed("Kerberos: " + root.getMessage() + ". Check the keytab or the ticket "
        + "cache, kafka.sasl.kerberos.service.name, the brokers' host names and krb5.conf", why);
  }

  private synchronized Subject tickets() throws LoginException {
    if (subject == null || System.currentTimeMillis() >= renewAtMs) {
      Subject fresh = new Subject();
      new LoginContext("bowstring", fresh, null, configuration()).login();
      long now = System.currentTimeMillis();
      renewAtMs = Long.MAX_VALUE;
      for (KerberosTicket ticket : fresh.getPrivateCredentials(KerberosTicket.class)) {
        renewAtMs = Math.min(renewAtMs, now + (long) (RENEWAL * (ticket.getEndTime().getTime() - now)));
      }
      subject = fresh;
    }
    return subject;
  }

  private Configuration configuration() {
    AppConfigurationEntry entry = new AppConfigurationEntry(
        MODULE, AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, options);
    return new Configuration() {
      @Override
      public AppConfigurationEntry[] getAppConfigurationEntry(String name) {
        return new AppConfigurationEntry[] {entry};
      }
    };
  }
}
