import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.slf4j.LoggerFactory;

/** Tells Java's tables of settings, then what its producer makes of each line of settings on standard input. */
public class SettingsOfJava {
    public static void main(String[] arguments) throws Exception {
        for (String kind : new String[] {"producer.ProducerConfig", "consumer.ConsumerConfig", "admin.AdminClientConfig"}) {
            Field table = Class.forName("org.apache.kafka.clients." + kind).getDeclaredField("CONFIG");
            table.setAccessible(true);
            for (ConfigDef.ConfigKey row : ((ConfigDef) table.get(null)).configKeys().values()) {
                Object fallback = row.hasDefault() ? row.defaultValue : null;
                System.out.println("row|" + kind + "|" + row.name + "|" + row.type + "|" + fallback + "|" + row.validator);
            }
        }
        for (String settings : new String[] {"", "", "transactional.id=flights", "client.id=me transactional.id=flights"}) {
            System.out.println("named|" + new ProducerConfig(read(settings)).getString("client.id"));
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println("made|" + made(line));
        }
    }

    private static Map<String, Object> read(String line) {
        Map<String, Object> given = new HashMap<>();
        given.put("bootstrap.servers", "localhost:9092");
        given.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        given.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        for (String pair : line.isEmpty() ? new String[0] : line.split(" ")) {
            given.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        }
        return given;
    }

    private static String made(String line) throws Exception {
        try {
            ProducerConfig config = new ProducerConfig(read(line));
            Method deliveryTimeout = KafkaProducer.class.getDeclaredMethod(
                "configureDeliveryTimeout", ProducerConfig.class, org.slf4j.Logger.class);
            deliveryTimeout.setAccessible(true);
            Object deliveryTimeoutMs = deliveryTimeout.invoke(null, config, LoggerFactory.getLogger("settings"));
            return config.getBoolean("enable.idempotence") + " " + config.getString("acks") + " " + deliveryTimeoutMs
                + " " + config.getLong("reconnect.backoff.max.ms");
        } catch (ConfigException | InvocationTargetException refused) {
            return "refused";
        }
    }
}
