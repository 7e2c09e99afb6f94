import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs command-line tools inside one warm JVM: each line of standard input is a class name and its arguments, separated
 * by tabs. The tool's output goes to standard output, followed by a line that starts with the byte 4 and says "done",
 * or "failed" with the reason.
 */
public final class ToolHost {
    private static final char END = '\u0004';

    private static final class ToolExit extends RuntimeException {
        private static final long serialVersionUID = 1L;
        private final int status;

        private ToolExit(int status, String message) {
            super("exit status " + status + (message == null ? "" : ": " + message));
            this.status = status;
        }
    }

    // Tools catch what they throw at their exit, and exit once more: a process of their own ends at the first time.
    private static volatile ToolExit first;

    private ToolHost() {
    }

    public static void main(String[] arguments) throws Exception {
        // Kafka's tools end through Exit; the JVM must outlive them.
        Exit.setExitProcedure((status, message) -> {
            ToolExit exit = new ToolExit(status, message);
            if (first == null)
                first = exit;
            throw exit;
        });
        BufferedReader commands =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String outcome = run(line.split("\t", -1));
            System.out.println(END + outcome);
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String run(String[] command) {
        first = null;
        try {
            Method main = Class.forName(command[0]).getMethod("main", String[].class);
            String[] toolArguments = Arrays.copyOfRange(command, 1, command.length);
            main.invoke(null, (Object) toolArguments);
            return first == null || first.status == 0 ? "done" : failed(first);
        } catch (InvocationTargetException error) {
            Throwable cause = first == null ? error.getCause() : first;
            if (first != null && first.status == 0)
                return "done";
            cause.printStackTrace();
            return failed(cause);
        } catch (ReflectiveOperationException error) {
            return failed(error);
        }
    }

    private static String failed(Throwable cause) {
        return "failed " + cause.toString().replace('\n', ' ');
    }
}
