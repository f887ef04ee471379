// Apache Kafka's own client for Java, for trials: docs/trial-clients.md says what the lines hold.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

public class TrialClient {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        JsonNode start = JSON.readTree(lines.readLine());
        ObjectNode hello = JSON.createObjectNode().put("client", "kafka-clients for Java").put("version", AppInfoParser.getVersion());
        ArrayNode without = hello.putArray("without");
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", start.get("bootstrap.servers").asText());
        start.get("settings").fields().forEachRemaining(setting -> {
            if (ProducerConfig.configNames().contains(setting.getKey())) {
                config.put(setting.getKey(), setting.getValue().asText());
            } else {
                without.add(setting.getKey());
            }
        });
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            say(hello);
            String line;
            while ((line = lines.readLine()) != null) {
                JsonNode given = JSON.readTree(line);
                if (given.has("number")) {
                    send(producer, start.get("topic").asText(), given);
                } else {
                    producer.flush();
                }
            }
        } catch (ConfigException error) {
            say(hello.put("impossible", error.getMessage()));
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, JsonNode given) throws IOException {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : given.get("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
        }
        Integer partition = given.get("partition").isNull() ? null : given.get("partition").asInt();
        var record = new ProducerRecord<>(topic, partition, bytes(given.get("key")), bytes(given.get("value")), headers);
        int number = given.get("number").asInt();
        producer.send(record, (metadata, error) -> {
            ObjectNode told = JSON.createObjectNode().put("number", number);
            if (error == null) {
                told.put("outcome", "acked").put("partition", metadata.partition()).put("offset", metadata.offset());
            } else {
                // An error after a time-out or a retry does not say whether the record is stored.
                told.put("outcome", "unknown").put("error", error.toString());
            }
            say(told);
        });
    }

    private static byte[] bytes(JsonNode given) throws IOException {
        return given.isNull() ? null : given.binaryValue();
    }

    private static synchronized void say(JsonNode line) {
        System.out.println(line);
        System.out.flush();
    }
}
