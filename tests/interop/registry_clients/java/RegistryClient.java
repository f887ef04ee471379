// What Confluent's client of a schema registry, in the jar that Apache Flink ships, is told by one, as a line of JSON.
//
// Arguments: the registry's address, a subject with one version, a value of it in hex.
import java.io.ByteArrayOutputStream;
import java.util.HexFormat;
import java.util.List;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import org.apache.flink.avro.shaded.org.apache.avro.Schema;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericData;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumReader;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericDatumWriter;
import org.apache.flink.avro.shaded.org.apache.avro.generic.GenericRecord;
import org.apache.flink.avro.shaded.org.apache.avro.io.DecoderFactory;
import org.apache.flink.avro.shaded.org.apache.avro.io.EncoderFactory;

public class RegistryClient {
    private static final String LATER = "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"item\",\"type\":"
            + "\"string\"},{\"name\":\"count\",\"type\":\"int\",\"default\":0}]}";
    private static final String OTHER =
            "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"item\",\"type\":\"int\"}]}";

    private interface Asked {
        void ask() throws Exception;
    }

    private static int codeOf(Asked asked) throws Exception {
        try {
            asked.ask();
            return 0;
        } catch (RestClientException refused) {
            return refused.getErrorCode();
        }
    }

    public static void main(String[] given) throws Exception {
        String subject = given[1];
        var client = new CachedSchemaRegistryClient(List.of(given[0]), 100);
        var first = client.getLatestSchemaMetadata(subject);
        int again = client.register(subject, new AvroSchema(first.getSchema()));
        boolean fits = client.testCompatibility(subject, new AvroSchema(LATER));
        boolean fails = client.testCompatibility(subject, new AvroSchema(OTHER));
        int refused = codeOf(() -> client.register(subject, new AvroSchema(OTHER)));
        int second = client.register(subject, new AvroSchema(LATER));
        int version = client.getVersion(subject, new AvroSchema(LATER));

        byte[] value = HexFormat.of().parseHex(given[2]);
        int id = (int) Long.parseLong(given[2].substring(2, 10), 16);
        Schema writer = ((AvroSchema) client.getSchemaById(id)).rawSchema();
        Schema reader = new Schema.Parser().parse(LATER);
        var decoder = DecoderFactory.get().binaryDecoder(value, 5, value.length - 5, null);
        GenericRecord read = new GenericDatumReader<GenericRecord>(writer, reader).read(null, decoder);

        var made = new GenericData.Record(reader);
        made.put("item", "milk!");
        made.put("count", 2);
        var out = new ByteArrayOutputStream();
        var encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<GenericRecord>(reader).write(made, encoder);
        encoder.flush();
        String written = String.format("00%08x", second) + HexFormat.of().formatHex(out.toByteArray());

        client.updateCompatibility(subject, "FULL");
        String level = client.getCompatibility(subject);
        int lacking = codeOf(() -> client.getSchemaById(999_999));
        boolean listed = client.getAllSubjects().contains(subject);
        var deleted = client.deleteSubject(subject);
        System.out.printf(
                "{\"first\":%d,\"again\":%d,\"compatible\":[%b,%b],\"refused\":%d,\"version\":%d,\"item\":\"%s\","
                        + "\"count\":%s,\"value\":\"%s\",\"level\":\"%s\",\"lacking\":%d,\"listed\":%b,\"deleted\":%s}%n",
                first.getId(), again, fits, fails, refused, version, read.get("item"), read.get("count"), written, level,
                lacking, listed, deleted);
    }
}
