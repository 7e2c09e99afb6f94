import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;

/** How the clients of the next operations connect. */
final class Security {
    private static Map<String, Object> settings = Map.of();

    private Security() {}

    static void register(Map<String, Driver.Operation> operations) {
        operations.put("secure", args -> {
            settings = settingsOf(args.get("security"));
            return Driver.object();
        });
        operations.put("greet", args -> {
            Map<String, Object> config = new HashMap<>(settings);
            config.put("bootstrap.servers", args.get("bootstrap").asText());
            config.put("request.timeout.ms", 5000);
            config.put("default.api.timeout.ms", 5000);
            try (Admin admin = Admin.create(config)) {
                return Driver.object().put("brokers", admin.describeCluster().nodes().get().size());
            }
        });
    }

    static Map<String, Object> settings() {
        return settings;
    }

    private static Map<String, Object> settingsOf(JsonNode security) {
        Map<String, Object> found = new HashMap<>();
        String mechanism = security.path("mechanism").asText("");
        boolean isEncrypted = security.hasNonNull("ca");
        found.put("security.protocol", (mechanism.isEmpty() ? "" : "SASL_") + (isEncrypted ? "SSL" : "PLAINTEXT"));
        if (mechanism.isEmpty() && isEncrypted) {
            found.put("security.protocol", "SSL");
        }
        if (isEncrypted) {
            found.put("ssl.truststore.type", "PEM");
            found.put("ssl.truststore.location", security.get("ca").asText());
        }
        if (security.hasNonNull("keystore")) {
            found.put("ssl.keystore.type", "PEM");
            found.put("ssl.keystore.location", security.get("keystore").asText());
        }
        if (mechanism.equals("GSSAPI")) {
            System.setProperty("java.security.krb5.conf", security.get("krb5").asText());
            found.put("sasl.mechanism", mechanism);
            found.put("sasl.kerberos.service.name", security.get("service").asText());
            found.put("sasl.jaas.config", security.get("jaas").asText());
        } else if (!mechanism.isEmpty()) {
            found.put("sasl.mechanism", mechanism);
            if (mechanism.equals("OAUTHBEARER")) {
                found.putAll(bearer(security));
                return found;
            }
            String name = mechanism.startsWith("SCRAM") ? "scram.Scram" : "plain.Plain";
            String password = security.path("password").asText().replace("\"", "\\\"");
            String login = "username=\"" + security.path("username").asText() + "\" password=\"" + password + "\"";
            if (security.path("is_token").asBoolean()) {
                login += " tokenauth=\"true\"";
            }
            found.put("sasl.jaas.config",
                    "org.apache.kafka.common.security." + name + "LoginModule required " + login + ";");
        }
        return found;
    }

    /** The login with a token of a file; without a token, with one that nobody has signed. */
    private static Map<String, Object> bearer(JsonNode security) {
        String login = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required";
        if (!security.hasNonNull("token")) {
            return Map.of("sasl.jaas.config", login + " unsecuredLoginStringClaim_sub=\"alice\";");
        }
        try {
            Path file = Files.createTempFile("token", ".jwt");
            file.toFile().deleteOnExit();
            Files.writeString(file, security.get("token").asText());
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", file.toUri().toString());
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.files", file.toString());
            return Map.of(
                    "sasl.jaas.config", login + ";",
                    "sasl.login.callback.handler.class",
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
                    "sasl.oauthbearer.token.endpoint.url", file.toUri().toString());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
