import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import org.HdrHistogram.Histogram;

/** What HdrHistogram's own library makes of the values in values.txt: its compressed V2 encoding in base64. */
public class Hlog {
    private static final long HIGHEST = 3_600_000_000L;

    public static void main(String[] args) throws IOException {
        Path dir = Path.of(args[0]);
        Histogram histogram = new Histogram(1, HIGHEST, 3);
        for (String line : Files.readAllLines(dir.resolve("values.txt"))) {
            String[] words = line.split(" ");
            histogram.recordValueWithCount(Long.parseLong(words[0]), Long.parseLong(words[1]));
        }
        ByteBuffer buffer = ByteBuffer.allocate(histogram.getNeededByteBufferCapacity());
        int size = histogram.encodeIntoCompressedByteBuffer(buffer);
        byte[] bytes = new byte[size];
        buffer.get(0, bytes);
        Files.writeString(dir.resolve("encoded.txt"), Base64.getEncoder().encodeToString(bytes) + "\n");
    }
}
