package bowstring.spark.wire;

import java.io.IOException;
import java.io.Serializable;
import java.net.URI;
import java.security.GeneralSecurityException;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLParameters;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * TLS and SASL of a source or sink, from its {@code kafka.*} options by the names of Kafka's clients and of librdkafka.
 *
 * <p>Neither {@link #toString} nor an error shows a secret. Two with equal settings are equal, so that connections are
 * shared only between queries of the same identity.
 */
public final class ClientSecurity implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final Logger LOG = LoggerFactory.getLogger(ClientSecurity.class);

  private static final Set<String> PROTOCOLS = Set.of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL");
  private static final Set<String> MECHANISMS = Set.of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER",
      "GSSAPI");

  /** Names of librdkafka and kafka-python, and what they are here. */
  private static final Map<String, String> OTHERS = Map.ofEntries(
      Map.entry("ssl.cafile", "ssl.ca.location"), Map.entry("ssl.certfile", "ssl.certificate.location"),
      Map.entry("ssl.keyfile", "ssl.key.location"), Map.entry("ssl.password", "ssl.key.password"),
      Map.entry("ssl.ciphers", "ssl.cipher.suites"), Map.entry("sasl.mechanisms", "sasl.mechanism"),
      Map.entry("sasl.plain.username", "sasl.username"), Map.entry("sasl.plain.password", "sasl.password"),
      Map.entry("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id"),
      Map.entry("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret"));

  private static final Set<String> NAMES = Set.of("security.protocol", "ssl.ca.location", "ssl.ca.pem",
      "ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password", "ssl.truststore.certificates",
      "ssl.endpoint.identification.algorithm", "ssl.check.hostname", "enable.ssl.certificate.verification",
      "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.key.password",
      "ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password", "ssl.keystore.key",
      "ssl.keystore.certificate.chain", "ssl.enabled.protocols", "ssl.cipher.suites", "sasl.mechanism", "sasl.username",
      "sasl.password", "sasl.jaas.config", "sasl.oauthbearer.token", "sasl.oauthbearer.token.endpoint.url",
      "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.scope",
      "sasl.oauthbearer.method", "sasl.oauthbearer.extensions", "sasl.kerberos.service.name",
      "sasl.kerberos.domain.name", "sasl.kerberos.keytab", "sasl.kerberos.principal");

  /** What programs give in any case, whatever the protocol. */
  private static final Set<String> HARMLESS = Set.of("enable.ssl.certificate.verification", "ssl.check.hostname",
      "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.keystore.type", "ssl.truststore.type");

  private static final Pattern JAAS_MODULE = Pattern.compile("\\s*([\\w.$]+)\\s+\\w+\\s");
  private static final Pattern JAAS_OPTION = Pattern.compile("([\\w.]+)\\s*=\\s*(?:\"((?:[^\"\\\\]|\\\\.)*)\"|([^\\s;]+))");

  private final TreeMap<String, String> settings = new TreeMap<>();
  private final String protocol;
  private transient volatile SSLContext context;
  private transient volatile BearerTokens tokens;
  private transient volatile KerberosTickets tickets;

  private ClientSecurity(Map<String, String> options) {
    for (Map.Entry<String, String> option : options.entrySet()) {
      String given = option.getKey().replace('_', '.');
      String name = OTHERS.getOrDefault(given, given);
      if (NAMES.contains(name)) {
        settings.put(name, option.getValue().trim());
      } else if (name.startsWith("ssl.") || name.startsWith("sasl.") || name.startsWith("security.")) {
        throw new IllegalArgumentException("Option 'kafka." + option.getKey() + "' is not supported: see "
            + "docs/guide/clients.md for the settings of TLS and SASL");
      }
    }
    protocol = settings.getOrDefault("security.protocol", "PLAINTEXT").toUpperCase(Locale.ROOT);
    if (!PROTOCOLS.contains(protocol)) {
      throw new IllegalArgumentException("Option 'kafka.security.protocol' is '" + protocol + "': give one of "
          + String.join(", ", new TreeSet<>(PROTOCOLS)));
    }
    refuseUnused();
    if (hasSasl()) {
      exchange("localhost"); // a mistake is reported on the driver
    }
  }

  static ClientSecurity of(Map<String, String> options) {
    return new ClientSecurity(options);
  }

  /** Whether an option without its prefix belongs to TLS or SASL. */
  static boolean isName(String name) {
    return NAMES.contains(OTHERS.getOrDefault(name, name));
  }

  private void refuseUnused() {
    for (String name : settings.keySet()) {
      boolean used = HARMLESS.contains(name) || name.equals("security.protocol")
          || (name.startsWith("sasl.") ? hasSasl() : hasTls());
      if (!used) {
        throw new IllegalArgumentException("Option 'kafka." + name + "' has no effect with kafka.security.protocol="
            + protocol + ": set it to " + (name.startsWith("sasl.") ? "SASL_SSL" : "SSL") + ", or remove the option");
      }
    }
  }

  boolean hasTls() {
    return protocol.endsWith("SSL");
  }

  boolean hasSasl() {
    return protocol.startsWith("SASL");
  }

  // ---------------------------------------------------------------- TLS

  /** An engine for one connection. */
  SSLEngine engine(HostPort address) throws IOException {
    SSLEngine engine = context().createSSLEngine(address.host(), address.port());
    engine.setUseClientMode(true);
    SSLParameters parameters = engine.getSSLParameters();
    if (verifies() && checksHost()) {
      parameters.setEndpointIdentificationAlgorithm("HTTPS");
    }
    parameters.setProtocols(list("ssl.enabled.protocols", "TLSv1.2,TLSv1.3"));
    if (settings.containsKey("ssl.cipher.suites")) {
      parameters.setCipherSuites(list("ssl.cipher.suites", ""));
    }
    engine.setSSLParameters(parameters);
    return engine;
  }

  private String[] list(String name, String otherwise) {
    return settings.getOrDefault(name, otherwise).replace(':', ',').split("\\s*,\\s*");
  }

  private boolean verifies() {
    return isTrue("enable.ssl.certificate.verification", true);
  }

  private boolean checksHost() {
    String algorithm = settings.getOrDefault("ssl.endpoint.identification.algorithm", "https");
    return algorithm.equalsIgnoreCase("https") && isTrue("ssl.check.hostname", true);
  }

  private boolean isTrue(String name, boolean otherwise) {
    return Boolean.parseBoolean(settings.getOrDefault(name, Boolean.toString(otherwise)).toLowerCase(Locale.ROOT));
  }

  private SSLContext context() throws IOException {
    SSLContext made = context;
    if (made == null) {
      if (!verifies()) {
        LOG.warn("kafka.enable.ssl.certificate.verification is false: whoever answers is trusted");
      }
      try {
        made = KeyMaterial.context(settings, verifies());
      } catch (GeneralSecurityException | IllegalArgumentException wrong) {
        throw new WireException.AuthenticationFailed("The keys or certificates of kafka.ssl.* cannot be used: "
            + wrong.getMessage(), wrong);
      }
      context = made;
    }
    return made;
  }

  // ---------------------------------------------------------------- SASL

  /** A new exchange of the mechanism with a host. */
  SaslExchange exchange(String host) {
    Map<String, String> jaas = new LinkedHashMap<>();
    String module = readJaas(jaas);
    String mechanism = settings.getOrDefault("sasl.mechanism",
        module.endsWith("PlainLoginModule") ? "PLAIN" : module.endsWith("OAuthBearerLoginModule") ? "OAUTHBEARER"
            : module.endsWith("Krb5LoginModule") ? "GSSAPI" : "")
        .toUpperCase(Locale.ROOT);
    if (!MECHANISMS.contains(mechanism)) {
      throw new IllegalArgumentException("Option 'kafka.sasl.mechanism' is '" + mechanism + "': give one of "
          + String.join(", ", new TreeSet<>(MECHANISMS)));
    }
    if (mechanism.equals("OAUTHBEARER")) {
      return SaslExchange.bearer(tokens(jaas)::token, extensions(jaas));
    }
    if (mechanism.equals("GSSAPI")) {
      String service = value("sasl.kerberos.service.name", jaas.getOrDefault("serviceName", "kafka"));
      return SaslExchange.gssapi(tickets(jaas), service, value("sasl.kerberos.domain.name", host));
    }
    String user = value("sasl.username", jaas.get("username"));
    String password = value("sasl.password", jaas.get("password"));
    if (user == null || user.isEmpty() || password == null || password.isEmpty()) {
      throw new IllegalArgumentException(
          "Options 'kafka.sasl.username' and 'kafka.sasl.password' (or kafka.sasl.jaas.config) must be specified");
    }
    return mechanism.equals("PLAIN") ? SaslExchange.plain(user, password)
        : new SaslExchange.Scram(mechanism, user, password, Boolean.parseBoolean(jaas.get("tokenauth")));
  }

  private String value(String name, String otherwise) {
    return settings.getOrDefault(name, otherwise);
  }

  /** Reads the options of the login module in sasl.jaas.config; returns its class, or an empty text. */
  private String readJaas(Map<String, String> into) {
    String text = settings.get("sasl.jaas.config");
    if (text == null) {
      return "";
    }
    Matcher module = JAAS_MODULE.matcher(text);
    if (!module.lookingAt() || !text.trim().endsWith(";")) {
      throw new IllegalArgumentException("Option 'kafka.sasl.jaas.config' is malformed: give "
          + "CLASS required username=\"…\" password=\"…\";");
    }
    Matcher option = JAAS_OPTION.matcher(text);
    for (int at = module.end(); option.find(at); at = option.end()) {
      String quoted = option.group(2);
      into.put(option.group(1), quoted != null ? quoted.replaceAll("\\\\(.)", "$1") : option.group(3));
    }
    return module.group(1);
  }

  private Map<String, String> extensions(Map<String, String> jaas) {
    Map<String, String> found = new TreeMap<>();
    jaas.forEach((name, value) -> {
      if (name.startsWith("extension_")) {
        found.put(name.substring("extension_".length()), value);
      }
    });
    for (String pair : settings.getOrDefault("sasl.oauthbearer.extensions", "").split(",")) {
      int at = pair.indexOf('=');
      if (at > 0) {
        found.put(pair.substring(0, at).trim(), pair.substring(at + 1).trim());
      }
    }
    return found;
  }

  private BearerTokens tokens(Map<String, String> jaas) {
    BearerTokens made = tokens;
    if (made == null) {
      String token = settings.get("sasl.oauthbearer.token");
      String url = settings.get("sasl.oauthbearer.token.endpoint.url");
      if ((token == null) == (url == null)) {
        throw new IllegalArgumentException("OAUTHBEARER needs either 'kafka.sasl.oauthbearer.token' or "
            + "'kafka.sasl.oauthbearer.token.endpoint.url' with client id and secret");
      }
      String id = value("sasl.oauthbearer.client.id", jaas.get("clientId"));
      String secret = value("sasl.oauthbearer.client.secret", jaas.get("clientSecret"));
      if (url != null && !url.startsWith("file:") && (id == null || secret == null)) {
        throw new IllegalArgumentException("Options 'kafka.sasl.oauthbearer.client.id' and "
            + "'kafka.sasl.oauthbearer.client.secret' must be specified");
      }
      String scope = value("sasl.oauthbearer.scope", jaas.get("scope"));
      made = token != null ? new BearerTokens(token) : new BearerTokens(URI.create(url), id, secret, scope);
      tokens = made;
    }
    return made;
  }

  private KerberosTickets tickets(Map<String, String> jaas) {
    KerberosTickets made = tickets;
    if (made == null) {
      Map<String, String> options = new TreeMap<>(jaas);
      options.remove("serviceName");
      String keytab = settings.get("sasl.kerberos.keytab");
      if (keytab != null) {
        options.putAll(Map.of("useKeyTab", "true", "keyTab", keytab));
      }
      if (settings.containsKey("sasl.kerberos.principal")) {
        options.put("principal", settings.get("sasl.kerberos.principal"));
      }
      if (jaas.isEmpty() && keytab == null) {
        options.put("useTicketCache", "true");
      }
      boolean usesKeytab = Boolean.parseBoolean(options.get("useKeyTab"));
      if (!usesKeytab && !Boolean.parseBoolean(options.get("useTicketCache"))) {
        throw new IllegalArgumentException("Option 'kafka.sasl.jaas.config' has no credentials: give useKeyTab=true "
            + "with keyTab and principal, or useTicketCache=true");
      }
      if (usesKeytab && (options.get("keyTab") == null || options.get("principal") == null)) {
        throw new IllegalArgumentException("Options 'kafka.sasl.kerberos.keytab' and 'kafka.sasl.kerberos.principal' "
            + "(or keyTab and principal in kafka.sasl.jaas.config) must be specified together");
      }
      made = new KerberosTickets(options);
      tickets = made;
    }
    return made;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof ClientSecurity that && settings.equals(that.settings);
  }

  @Override
  public int hashCode() {
    return settings.hashCode();
  }

  @Override
  public String toString() {
    return "ClientSecurity(" + protocol + ")";
  }
}
