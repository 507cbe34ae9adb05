import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command line tools, many in one JVM (whose start costs more than most of them): a line
 * {"main": CLASS, "args": [..], "stdin": TEXT} in, a line {"exit", "out", "err"} out.
 */
public final class Tools {
    /** What a tool's exit becomes: it unwinds to this class. */
    private static final class Exited extends Error {
        Exited() {
            super(null, null, false, false);
        }
    }

    private static final List<Runnable> HOOKS = new ArrayList<>();
    private static Integer exited;

    /** Tools catch everything, this too, say so and exit again: the first exit counts, what comes after is not heard. */
    private static void exit(int code, String message) {
        if (exited == null) {
            exited = code;
            System.setOut(new PrintStream(OutputStream.nullOutputStream()));
            System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        }
        throw new Exited();
    }

    public static void main(String[] ignored) throws Exception {
        InputStream in = System.in;
        PrintStream out = System.out;
        PrintStream err = System.err;
        Exit.setExitProcedure(Tools::exit);
        Exit.setHaltProcedure(Tools::exit);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        ObjectMapper json = new ObjectMapper();
        var lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode order = json.readTree(line);
            var toolOut = new ByteArrayOutputStream();
            var toolErr = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(order.path("stdin").asText("").getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(toolOut, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(toolErr, true, StandardCharsets.UTF_8));
            int exit = run(order);
            System.setOut(out);
            System.setErr(err);
            out.println(json.createObjectNode().put("exit", exit)
                .put("out", toolOut.toString(StandardCharsets.UTF_8))
                .put("err", toolErr.toString(StandardCharsets.UTF_8)));
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static int run(JsonNode order) {
        List<String> args = new ArrayList<>();
        order.path("args").forEach(arg -> args.add(arg.textValue()));
        exited = null;
        int exit = 0;
        try {
            Class.forName(order.path("main").textValue()).getMethod("main", String[].class)
                .invoke(null, (Object) args.toArray(new String[0]));
        } catch (InvocationTargetException thrown) {
            if (exited == null) {
                thrown.getCause().printStackTrace();
                exit = 1;
            }
        } catch (ReflectiveOperationException wrong) {
            wrong.printStackTrace();
            exit = 127;
        }
        for (Runnable hook : HOOKS) {
            hook.run();
        }
        HOOKS.clear();
        return exited != null ? exited : exit;
    }
}
