package bowstring.spark.wire;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Cipher;
import javax.crypto.EncryptedPrivateKeyInfo;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedTrustManager;

/** Keys and certificates from PEM, PKCS12 and JKS, by the names of Kafka's clients and of librdkafka. */
public final class KeyMaterial {
  private static final Pattern KEY =
      Pattern.compile("-----BEGIN ([A-Z ]*)PRIVATE KEY-----([^-]*)-----END [A-Z ]*PRIVATE KEY-----");

  private KeyMaterial() {}

  /** A context of TLS by the settings of Kafka's clients; without verification it trusts any certificate. */
  public static SSLContext context(Map<String, String> settings, boolean verify) throws GeneralSecurityException, IOException {
    SSLContext context = SSLContext.getInstance("TLS");
    TrustManager[] trust = verify ? trusted(settings) : new TrustManager[] {new TrustAll()};
    context.init(own(settings), trust, null);
    return context;
  }

  /** Null: the JVM's authorities. */
  private static TrustManager[] trusted(Map<String, String> settings) throws GeneralSecurityException, IOException {
    String location = settings.get("ssl.truststore.location");
    KeyStore store = null;
    if (location != null && !isPem(settings.get("ssl.truststore.type"), location)) {
      store = open(location, settings.get("ssl.truststore.type"), settings.get("ssl.truststore.password"));
    } else {
      String pem = first(settings, location, "ssl.truststore.certificates", "ssl.ca.location", "ssl.ca.pem");
      if (pem != null) {
        store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        for (Certificate each : certificates(pem)) {
          store.setCertificateEntry("authority-" + store.size(), each);
        }
      }
    }
    if (store == null) {
      return null;
    }
    TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    factory.init(store);
    return factory.getTrustManagers();
  }

  /** Null: no certificate of this client. */
  private static KeyManager[] own(Map<String, String> settings) throws GeneralSecurityException, IOException {
    String location = settings.get("ssl.keystore.location");
    String keyPassword = settings.get("ssl.key.password");
    KeyStore store;
    char[] password;
    if (location != null && !isPem(settings.get("ssl.keystore.type"), location)) {
      String storePassword = settings.get("ssl.keystore.password");
      store = open(location, settings.get("ssl.keystore.type"), storePassword);
      String found = keyPassword != null ? keyPassword : storePassword;
      password = found == null ? null : found.toCharArray();
    } else {
      String chain = first(settings, location, "ssl.keystore.certificate.chain", "ssl.certificate.location",
          "ssl.certificate.pem");
      String key = first(settings, location, "ssl.keystore.key", "ssl.key.location", "ssl.key.pem");
      if (chain == null && key == null) {
        return null;
      }
      if (chain == null || key == null) {
        throw new IllegalArgumentException("a certificate needs its private key, and a key its certificate; give both");
      }
      password = new char[0];
      store = KeyStore.getInstance("PKCS12");
      store.load(null, null);
      store.setKeyEntry("own", key(key, keyPassword), password, certificates(chain).toArray(new Certificate[0]));
    }
    KeyManagerFactory factory = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    factory.init(store, password);
    return factory.getKeyManagers();
  }

  private static boolean isPem(String type, String location) {
    return type != null ? type.equalsIgnoreCase("PEM") : location.endsWith(".pem");
  }

  private static KeyStore open(String location, String type, String password)
      throws GeneralSecurityException, IOException {
    KeyStore store = KeyStore.getInstance(type != null ? type : location.endsWith(".jks") ? "JKS" : "PKCS12");
    try (InputStream file = Files.newInputStream(Path.of(location))) {
      store.load(file, password == null ? null : password.toCharArray());
    } catch (IOException unreadable) {
      throw new IllegalArgumentException(location + " cannot be read (" + unreadable.getMessage()
          + "): check the file, its type and its password", unreadable);
    }
    return store;
  }

  /** The PEM text of a file, or of the first setting that is given; those that end in location name files. */
  private static String first(Map<String, String> settings, String file, String... names) throws IOException {
    if (file != null) {
      return text(file);
    }
    for (String name : names) {
      String value = settings.get(name);
      if (value != null) {
        return name.endsWith("location") ? text(value) : value.replace("\\n", "\n");
      }
    }
    return null;
  }

  private static String text(String location) throws IOException {
    Path path = Path.of(location);
    try {
      if (!Files.isDirectory(path)) {
        return Files.readString(path, StandardCharsets.ISO_8859_1);
      }
      StringBuilder all = new StringBuilder();
      try (var files = Files.newDirectoryStream(path, "*.{pem,crt,0}")) {
        for (Path each : files) {
          all.append(Files.readString(each, StandardCharsets.ISO_8859_1)).append('\n');
        }
      }
      return all.toString();
    } catch (IOException unreadable) {
      throw new IllegalArgumentException(location + " cannot be read (" + unreadable.getMessage() + ")", unreadable);
    }
  }

  private static List<Certificate> certificates(String pem) throws GeneralSecurityException {
    List<Certificate> found = new ArrayList<>();
    Matcher each = Pattern.compile("-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----").matcher(pem);
    CertificateFactory factory = CertificateFactory.getInstance("X.509");
    while (each.find()) {
      found.add(factory.generateCertificate(new ByteArrayInputStream(each.group().getBytes(StandardCharsets.US_ASCII))));
    }
    if (found.isEmpty()) {
      throw new IllegalArgumentException("there is no certificate; add the lines from -----BEGIN CERTIFICATE----- on");
    }
    return found;
  }

  private static PrivateKey key(String pem, String password) throws GeneralSecurityException, IOException {
    Matcher found = KEY.matcher(pem);
    if (!found.find()) {
      throw new IllegalArgumentException("there is no private key; add the lines from -----BEGIN PRIVATE KEY----- on");
    }
    String kind = found.group(1).trim();
    byte[] der = Base64.getMimeDecoder().decode(found.group(2));
    if (kind.equals("ENCRYPTED")) {
      if (password == null) {
        throw new IllegalArgumentException("the private key is encrypted; give kafka.ssl.key.password");
      }
      EncryptedPrivateKeyInfo info = new EncryptedPrivateKeyInfo(der);
      Cipher cipher = Cipher.getInstance(info.getAlgName().equals("PBES2")
          ? info.getAlgParameters().toString() : info.getAlgName());
      cipher.init(Cipher.DECRYPT_MODE, SecretKeyFactory.getInstance(info.getAlgName().equals("PBES2")
          ? info.getAlgParameters().toString() : info.getAlgName())
          .generateSecret(new PBEKeySpec(password.toCharArray())), info.getAlgParameters());
      return decoded(info.getKeySpec(cipher));
    }
    if (!kind.isEmpty()) {
      throw new IllegalArgumentException("the private key is in an old format; convert it with `openssl pkcs8 -topk8`");
    }
    return decoded(new PKCS8EncodedKeySpec(der));
  }

  private static PrivateKey decoded(PKCS8EncodedKeySpec spec) throws GeneralSecurityException {
    for (String algorithm : List.of("RSA", "EC", "Ed25519")) {
      try {
        return KeyFactory.getInstance(algorithm).generatePrivate(spec);
      } catch (InvalidKeySpecException another) {
        continue;
      }
    }
    throw new IllegalArgumentException("the private key is of an unknown kind; use RSA or ECDSA");
  }

  /** Trusts any certificate: for experiments only. */
  private static final class TrustAll extends X509ExtendedTrustManager {
    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type) {}

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type) {}

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type, java.net.Socket socket) {}

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type, java.net.Socket socket) {}

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type, SSLEngine engine) {}

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type, SSLEngine engine) {}

    @Override
    public X509Certificate[] getAcceptedIssuers() {
      return new X509Certificate[0];
    }
  }
}
