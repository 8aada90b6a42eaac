import java.net.HttpURLConnection;
import java.net.URL;
import java.util.Arrays;

/** Java's own client; the proxy and the trust store are properties of the command line. */
public class Calls {
    static byte[] call(String url, byte[] body) throws Exception {
        HttpURLConnection call = (HttpURLConnection) new URL(url).openConnection();
        if (body != null) {
            call.setDoOutput(true);
            call.getOutputStream().write(body);
        }
        if (call.getResponseCode() != 200) throw new Exception(url + ": " + call.getResponseCode());
        return call.getInputStream().readAllBytes();
    }

    static void same(Object found, Object wanted) throws Exception {
        if (!found.equals(wanted)) throw new Exception(found + " is not " + wanted);
    }

    public static void main(String[] urls) throws Exception {
        byte[] much = new byte[2000000];
        Arrays.fill(much, (byte) 'x');
        for (String url : urls) {
            for (int n = 0; n < 10; n++) same(new String(call(url + "/" + n, null)), "ok");
            same(new String(call(url + "/up", much)), "2000000");
            same(call(url + "/down", null).length, 3000000);
            for (int n = 0; n < 5; n++) same(new String(call(url + "/" + n, null)), "ok");
        }
    }
}
