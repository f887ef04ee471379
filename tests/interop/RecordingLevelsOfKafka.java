import java.lang.reflect.Field;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Tells what Java's producer records at each metrics.recording.level, by sensor and metric, after one transaction. */
public class RecordingLevelsOfKafka {
    public static void main(String[] arguments) throws Exception {
        for (Sensor.RecordingLevel level : Sensor.RecordingLevel.values()) {
            Map<String, Object> settings = Map.of(
                "bootstrap.servers", arguments[0], "transactional.id", "levels", "metrics.recording.level", level.name());
            ByteArraySerializer bytes = new ByteArraySerializer();
            try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(arguments[1], new byte[100])).get();
                producer.commitTransaction();
                for (Metric metric : producer.metrics().values()) {
                    String name = metric.metricName().group() + "|" + metric.metricName().name();
                    System.out.println("metric|" + level + "|" + name + "|" + metric.metricValue());
                }
                Metrics metrics = (Metrics) read(KafkaProducer.class, producer, "metrics");
                for (Object sensor : ((Map<?, ?>) read(Metrics.class, metrics, "sensors")).values()) {
                    Object own = read(Sensor.class, sensor, "recordingLevel");
                    String name = ((Sensor) sensor).name();
                    System.out.println("sensor|" + level + "|" + name + "|" + own + "|" + ((Sensor) sensor).shouldRecord());
                }
            }
        }
    }

    private static Object read(Class<?> kind, Object target, String name) throws Exception {
        Field field = kind.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(target);
    }
}
