import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/**
 * Reads lines of "message version hex", has Kafka's own class read the bytes, and answers each with
 * "hex json": the bytes that class writes again, and what its JSON converter makes of it. A line that could
 * not be read is answered with "! exception". The line "errors" prints the error table.
 */
public final class Echo {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated.",
    };

    private record Codec(Constructor<?> reader, Method toJson) { }

    private static final Map<String, Codec> CODECS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("errors")) {
                printErrors(out);
            } else {
                String[] words = line.split(" ", 3);
                out.println(echo(words[0], Short.parseShort(words[1]), HexFormat.of().parseHex(words[2])));
            }
        }
        out.flush();
    }

    private static String echo(String name, short version, byte[] bytes) {
        try {
            Codec codec = CODECS.computeIfAbsent(name, Echo::find);
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            Message message = (Message) codec.reader.newInstance(new ByteBufferAccessor(buffer), version);
            if (buffer.hasRemaining()) {
                return "! " + buffer.remaining() + " bytes follow";
            }
            ByteBuffer written = MessageUtil.toByteBufferAccessor(message, version).buffer();
            JsonNode json = (JsonNode) codec.toJson.invoke(null, message, version, true);
            byte[] again = new byte[written.remaining()];
            written.get(again);
            return HexFormat.of().formatHex(again) + " " + json;
        } catch (ReflectiveOperationException | RuntimeException error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            return "! " + cause.toString().replace('\n', ' ');
        }
    }

    private static Codec find(String name) {
        for (String prefix : PACKAGES) {
            for (String suffix : new String[] {"", "Data"}) {
                try {
                    Class<?> message = Class.forName(prefix + name + suffix);
                    Class<?> converter = Class.forName(prefix + name + suffix + "JsonConverter");
                    return new Codec(
                        message.getConstructor(Readable.class, short.class),
                        converter.getMethod("write", message, short.class, boolean.class));
                } catch (ClassNotFoundException | NoSuchMethodException absent) {
                    continue;
                }
            }
        }
        throw new IllegalArgumentException("Kafka has no message " + name);
    }

    private static void printErrors(PrintStream out) {
        StringBuilder line = new StringBuilder();
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof RetriableException;
            line.append(error.code()).append(':').append(error.name()).append(':').append(retriable).append(' ');
        }
        out.println(line.toString().trim());
    }
}
