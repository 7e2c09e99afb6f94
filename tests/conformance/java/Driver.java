import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;

/** Kafka's own Java clients under the conformance suite's driver protocol: a JSON object a line in, one out. */
public final class Driver {
    static final ObjectMapper JSON = new ObjectMapper();

    /** One row of the driver's table. */
    interface Operation {
        ObjectNode run(JsonNode args) throws Exception;
    }

    private Driver() {}

    static ObjectNode object() {
        return JSON.createObjectNode();
    }

    /** Base64 text as bytes, null as null. */
    static byte[] bytes(JsonNode node) throws IOException {
        return node == null || node.isNull() ? null : node.binaryValue();
    }

    /** The value of generated record {@code index}: its number in eight digits, then dots. */
    static byte[] floodValue(int index, int size) {
        byte[] value = new byte[size];
        java.util.Arrays.fill(value, (byte) '.');
        byte[] digits = String.format("%08d", index).getBytes();
        System.arraycopy(digits, 0, value, 0, digits.length);
        return value;
    }

    /** Kafka's error code, where the failure (or what caused it) is one of Kafka's. */
    private static ObjectNode failure(Throwable thrown) {
        Throwable cause = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
        ObjectNode error = object();
        if (cause instanceof ApiException) {
            error.put("code", Errors.forException(cause).code());
        } else {
            error.putNull("code");
        }
        return error.put("message", cause.toString());
    }

    public static void main(String[] arguments) throws IOException {
        Map<String, Operation> operations = new HashMap<>();
        Security.register(operations);
        Producers.register(operations);
        Consumers.register(operations);
        Members.register(operations);
        Sharers.register(operations);
        Admins.register(operations);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        PrintStream output = System.out;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode request = JSON.readTree(line);
            ObjectNode answer = object().put("id", request.get("id").asInt());
            try {
                answer.set("ok", operations.get(request.get("op").asText()).run(request.get("args")));
            } catch (Exception thrown) {
                answer.set("error", failure(thrown));
            }
            output.println(JSON.writeValueAsString(answer));
            output.flush();
        }
        System.exit(0);
    }

    static ArrayNode pair(String topic, int partition) {
        return JSON.createArrayNode().add(topic).add(partition);
    }
}
