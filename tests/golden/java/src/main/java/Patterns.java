import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Writes anew what RE2/J, which Kafka matches names of topics with, says to the patterns of a file:
 * each line is a pattern, a tab, and "bad" with the reason, or a digit for each name of the second line.
 */
public final class Patterns {
    public static void main(String[] args) throws IOException {
        Path file = Path.of(args[0]);
        List<String> lines = Files.readAllLines(file);
        String[] names = lines.get(1).substring(2).split(" ");
        List<String> out = new ArrayList<>(lines.subList(0, 2));
        for (String line : lines.subList(2, lines.size())) {
            String pattern = line.split("\t", -1)[0];
            out.add(pattern + "\t" + judge(pattern, names));
        }
        Files.write(file, out);
    }

    private static String judge(String text, String[] names) {
        try {
            Pattern pattern = Pattern.compile(text);
            StringBuilder result = new StringBuilder();
            for (String name : names) {
                result.append(pattern.matcher(name).matches() ? '1' : '0');
            }
            return result.toString();
        } catch (PatternSyntaxException e) {
            return "bad: " + e.getDescription();
        }
    }
}
