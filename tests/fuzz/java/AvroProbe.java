import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.StringJoiner;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/**
 * Answers lines of words, where texts are in base64. "parse new|stored text reference…": the schema's text
 * without what the references define, in base64. "compare reader writer": kind and path of each
 * incompatibility. "error": the schema was refused.
 */
public final class AvroProbe {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        StringBuilder answers = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            try {
                answers.append(words[0].equals("parse") ? parse(words) : compare(words));
            } catch (RuntimeException | StackOverflowError refused) {
                answers.append("error");
            }
            answers.append('\n');
        }
        System.out.print(answers);
    }

    private static String parse(String[] words) {
        boolean isNew = words[1].equals("new");
        Schema.Parser parser = parser(isNew);
        List<Schema> references = new ArrayList<>();
        for (int i = 3; i < words.length; i++) {
            references.add(parser.parse(text(words[i])));
        }
        String written = parser.parse(text(words[2])).toString(references, false);
        return Base64.getEncoder().encodeToString(written.getBytes(StandardCharsets.UTF_8));
    }

    private static String compare(String[] words) {
        Schema reader = parser(true).parse(text(words[1]));
        Schema writer = parser(true).parse(text(words[2]));
        StringJoiner found = new StringJoiner(";");
        for (SchemaCompatibility.Incompatibility each :
                SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getResult().getIncompatibilities()) {
            found.add(each.getType() + " " + each.getLocation());
        }
        return found.toString();
    }

    private static Schema.Parser parser(boolean isNew) {
        Schema.Parser parser = new Schema.Parser(isNew ? NameValidator.STRICT_VALIDATOR : NameValidator.NO_VALIDATION);
        parser.setValidateDefaults(isNew);
        return parser;
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
