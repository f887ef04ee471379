import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's command line tools one after the other: on standard input a line for each, its main class and arguments
 * between tabs; on standard output its exit status, how many bytes it said, and those.
 */
public class ToolsOfKafka {
    private static class Ended extends Error {
    }

    // One for all of them: who has asked for System.out once keeps it.
    private static final ByteArrayOutputStream SAID = new ByteArrayOutputStream();
    // How the tool under way has ended, and how much it had said by then: some catch what keeps them from going on.
    private static Integer status;
    private static int saidInAll;

    public static void main(String[] unused) throws Exception {
        PrintStream answers = System.out;
        PrintStream hearing = new PrintStream(SAID, true, StandardCharsets.UTF_8);
        System.setOut(hearing);
        System.setErr(hearing);
        Exit.setExitProcedure((given, message) -> {
            end(given);
            throw new Ended();
        });
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            SAID.reset();
            status = null;
            run(words[0], Arrays.copyOfRange(words, 1, words.length));
            end(0);
            answers.println(status + " " + saidInAll);
            answers.write(SAID.toByteArray(), 0, saidInAll);
            answers.flush();
        }
        System.exit(0);
    }

    private static void end(int given) {
        if (status == null) {
            System.out.flush();
            status = given;
            saidInAll = SAID.size();
        }
    }

    private static void run(String tool, String[] arguments) throws Exception {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (status == null) {
                thrown.getCause().printStackTrace();
            }
            end(1);
        }
    }
}
