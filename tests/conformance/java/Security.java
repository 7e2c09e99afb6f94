import com.fasterxml.jackson.databind.JsonNode;
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
            String name = mechanism.startsWith("SCRAM") ? "scram.Scram" : "plain.Plain";
            String password = security.path("password").asText().replace("\"", "\\\"");
            String login = "username=\"" + security.path("username").asText() + "\" password=\"" + password + "\"";
            found.put("sasl.jaas.config",
                    "org.apache.kafka.common.security." + name + "LoginModule required " + login + ";");
        }
        return found;
    }
}
