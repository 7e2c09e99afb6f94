package bowstring.spark.values;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * Keeps what schema registries answered: schemas and versions, which never change, and for some seconds that there is
 * none. Those that were not asked for longest go first.
 */
final class RegistryAnswers {
  private static final int ANSWERS_MAX = 10_000;
  private static final long CHARACTERS_MAX = 32L << 20;
  private static final long MISSING_NANOS = TimeUnit.SECONDS.toNanos(10);

  /**
   * A question.
   *
   * @param login of {@link RegistryLogin#identity}
   */
  private record Question(List<Object> login, String path) {
    /** Without the login, which has a password. */
    @Override
    public String toString() {
      return path;
    }
  }

  /**
   * An answer.
   *
   * @param found null if there is nothing
   * @param end when it is forgotten, in {@link System#nanoTime}; of those without a schema
   */
  record Answer(JsonNode found, long end) {
    private long characters() {
      return found == null ? 0 : found.path("schema").asText().length();
    }

    private boolean isOver() {
      return found == null && System.nanoTime() - end >= 0;
    }
  }

  /** Those that were asked for last come last. Guarded by this. */
  private final Map<Question, Answer> answers = new LinkedHashMap<>(16, 0.75f, true);

  private long characters;

  /** The answer to a request; null if the registry has to be asked. */
  synchronized Answer get(List<Object> login, String path) {
    Answer known = answers.get(new Question(login, path));
    return known == null || known.isOver() ? null : known;
  }

  /** Keeps an answer, null for none, and returns it. */
  synchronized Answer put(List<Object> login, String path, JsonNode found) {
    Answer made = new Answer(found, System.nanoTime() + MISSING_NANOS);
    Answer before = answers.put(new Question(login, path), made);
    characters += made.characters() - (before == null ? 0 : before.characters());
    Iterator<Answer> oldest = answers.values().iterator();
    while (answers.size() > ANSWERS_MAX || characters > CHARACTERS_MAX) {
      characters -= oldest.next().characters();
      oldest.remove();
    }
    return made;
  }

  /** Forgets what was missing: a schema was registered. */
  synchronized void forgetMissing() {
    answers.values().removeIf(each -> each.found == null);
  }
}
