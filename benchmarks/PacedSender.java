import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Java's client as a paced sender: what paced_worker.py does and prints, line for line, for the same task (JSON). */
public class PacedSender {
    private static final int KEYS = 10_000;
    private static final long WARM_UP_TIMEOUT_MS = 30_000;
    private static final long TICK_NS = 1_000_000;
    private static final int PIECE = 1_000;
    private static final long GRACE_NS = 100_000_000;
    private static final byte PENDING = 0;
    private static final byte ACKED = 1;
    private static final byte FAILED = 2;

    private final KafkaProducer<byte[], byte[]> producer;
    private final String topic;
    private final byte[] value;
    private final byte[][] keys = new byte[KEYS][];
    private final int rate;
    private final double seconds;
    private final int every;
    private final long drainMs;
    private final int warmUpRecords;
    private final int warmUpPerTick;
    private long[] sentNs;
    private long[] tookNs;
    private volatile byte[] outcomes;

    private PacedSender(JsonNode task) {
        topic = task.get("topic").asText();
        rate = task.get("rate").asInt();
        seconds = task.get("seconds").asDouble();
        every = task.get("every").asInt();
        drainMs = (long) (task.get("drain_s").asDouble() * 1000);
        warmUpRecords = task.get("warm_up_records").asInt();
        warmUpPerTick = task.get("warm_up_per_tick").asInt();
        value = new byte[task.get("value_bytes").asInt()];
        Arrays.fill(value, (byte) 'v');
        for (long number = 0; task.get("keyed").asBoolean() && number < KEYS; number++) {
            keys[(int) number] = String.format("%08d", number * 7919 % 100_000_000).getBytes();
        }
        Map<String, Object> settings = new HashMap<>();
        task.get("settings").properties().forEach(each -> settings.put(each.getKey(), each.getValue().asText()));
        settings.put("bootstrap.servers", task.get("bootstrap").asText());
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void warmUp() throws InterruptedException {
        for (int number = 0; number < warmUpRecords; number++) {
            producer.send(new ProducerRecord<>(topic, 0, keys[number % KEYS], value));
            if (number % warmUpPerTick == 0) {
                LockSupport.parkNanos(TICK_NS);
            }
        }
        if (!flush(WARM_UP_TIMEOUT_MS)) {
            throw new IllegalStateException("the records to warm up did not go through");
        }
    }

    private boolean flush(long timeoutMs) throws InterruptedException {
        Thread flushing = new Thread(producer::flush);
        flushing.setDaemon(true);
        flushing.start();
        flushing.join(timeoutMs);
        return !flushing.isAlive();
    }

    private Callback telling(int number) {
        return (metadata, error) -> {
            tookNs[number] = System.nanoTime() - sentNs[number];
            outcomes[number] = error == null ? ACKED : FAILED;
        };
    }

    private Map<String, Object> pace() throws InterruptedException {
        int total = (int) Math.round(rate * seconds);
        int count = (total + every - 1) / every;
        sentNs = new long[count];
        tookNs = new long[count];
        outcomes = new byte[count];
        int sent = 0;
        double perNs = rate / 1e9;
        double behindNs = 0;
        long begin = System.nanoTime();
        while (sent < total) {
            long now = System.nanoTime() - begin;
            if (now > seconds * 1e9 + GRACE_NS) {
                break;
            }
            behindNs = Math.max(behindNs, now - sent / perNs);
            int due = Math.min(Math.min(total, (int) (now * perNs) + 1), sent + PIECE);
            while (sent < due) {
                Callback callback = null;
                if (sent % every == 0) {
                    int number = sent / every;
                    callback = telling(number);
                    sentNs[number] = System.nanoTime();
                }
                producer.send(new ProducerRecord<>(topic, keys[sent % KEYS], value), callback);
                sent++;
            }
            // The next millisecond, or when the next record is due.
            long next = Math.max((now / TICK_NS + 1) * TICK_NS, (long) (sent / perNs));
            for (long left = begin + next - System.nanoTime(); left > 0; left = begin + next - System.nanoTime()) {
                LockSupport.parkNanos(left);
            }
        }
        long sendingNs = System.nanoTime() - begin;
        boolean flushed = flush(drainMs);
        long end = System.nanoTime();
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("sent", sent);
        told.put("behind_ms", behindNs / 1e6);
        told.put("sending_s", sendingNs / 1e9);
        told.put("all_s", (end - begin) / 1e9);
        told.put("flushed", flushed);
        tell(told, (sent + every - 1) / every, end);
        return told;
    }

    private void tell(Map<String, Object> told, int count, long end) {
        long[] tookUs = new long[count];
        int[] seen = new int[3];
        for (int number = 0; number < count; number++) {
            byte outcome = outcomes[number];
            seen[outcome]++;
            // What has no outcome by now has taken until now, at least.
            tookUs[number] = (outcome == PENDING ? end - sentNs[number] : tookNs[number]) / 1000;
        }
        told.put("took_us", tookUs);
        told.put("acked", seen[ACKED]);
        told.put("failed", seen[FAILED]);
        told.put("unknown", 0);
        told.put("not_told", seen[PENDING]);
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        PacedSender sender = new PacedSender(json.readTree(arguments[0]));
        sender.warmUp();
        System.out.println("ready");
        input.readLine();
        System.out.println(json.writeValueAsString(sender.pace()));
        input.readLine();
        // Not in order: what is still under way then is no part of this.
        Runtime.getRuntime().halt(0);
    }
}
