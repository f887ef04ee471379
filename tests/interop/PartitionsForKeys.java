import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

/** Reads keys (int length, bytes) and writes for each Java's murmur2 and its partition of as many as the argument says. */
public class PartitionsForKeys {
    public static void main(String[] arguments) throws IOException {
        int partitions = Integer.parseInt(arguments[0]);
        DataInputStream keys = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        try (DataOutputStream found = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16))) {
            while (true) {
                byte[] key;
                try {
                    key = new byte[keys.readInt()];
                } catch (EOFException end) {
                    return;
                }
                keys.readFully(key);
                found.writeInt(Utils.murmur2(key));
                found.writeInt(BuiltInPartitioner.partitionForKey(key, partitions));
            }
        }
    }
}
