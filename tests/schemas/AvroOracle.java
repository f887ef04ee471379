import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.util.Base64;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/** For each line (writer's schema, reader's schema, payload, in base64): the value as the reader writes it, or why not. */
public class AvroOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] given = line.split(" ", -1);
            try {
                Schema writer = new Schema.Parser().parse(new String(Base64.getDecoder().decode(given[0]), "UTF-8"));
                Schema reader = new Schema.Parser().parse(new String(Base64.getDecoder().decode(given[1]), "UTF-8"));
                BinaryDecoder from = DecoderFactory.get().binaryDecoder(Base64.getDecoder().decode(given[2]), null);
                Object value = new GenericDatumReader<Object>(writer, reader).read(null, from);
                ByteArrayOutputStream to = new ByteArrayOutputStream();
                BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(to, null);
                new GenericDatumWriter<Object>(reader).write(value, encoder);
                System.out.println("=" + Base64.getEncoder().encodeToString(to.toByteArray()));
            } catch (Exception failed) {
                System.out.println("!" + String.valueOf(failed).replace('\n', ' '));
            }
        }
    }
}
