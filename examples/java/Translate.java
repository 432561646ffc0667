// Translates its arguments, by JNA: its library, the path of libqkv.so, and a folder first.
//
//     javac -cp jna.jar Translate.java && java -cp jna.jar:. -Djna.library.path=/usr/local/lib Translate FOLDER TEXT...
import com.sun.jna.Library;
import com.sun.jna.Native;
import com.sun.jna.Pointer;
import com.sun.jna.StringArray;
import com.sun.jna.ptr.PointerByReference;
import java.util.Arrays;
import java.util.Map;

public class Translate {
  static final int OK = 0, TRANSLATE = 4, STORE_F32 = 0;

  interface Qkv extends Library {
    String qkv_message();

    int qkv_open(String folder, int task, int storage, PointerByReference model);

    void qkv_close(Pointer model);

    int qkv_translate(
        Pointer model, StringArray texts, long count, long beams, long maxLength, PointerByReference translations);

    void qkv_free(Pointer block);
  }

  static final Qkv QKV = Native.load("qkv", Qkv.class, Map.of(Library.OPTION_STRING_ENCODING, "UTF-8"));

  static void check(int status) {
    if (status != OK) throw new IllegalArgumentException(QKV.qkv_message());
  }

  static final class Translator implements AutoCloseable {
    private final Pointer model;

    Translator(String folder) {
      PointerByReference opened = new PointerByReference();
      check(QKV.qkv_open(folder, TRANSLATE, STORE_F32, opened));
      model = opened.getValue();
    }

    String[] translate(String... texts) {
      PointerByReference found = new PointerByReference();
      check(QKV.qkv_translate(model, new StringArray(texts, "UTF-8"), texts.length, 0, 0, found));
      try {
        return found.getValue().getStringArray(0, texts.length, "UTF-8");
      } finally {
        QKV.qkv_free(found.getValue());
      }
    }

    @Override
    public void close() {
      QKV.qkv_close(model);
    }
  }

  public static void main(String[] arguments) {
    if (arguments.length < 2) {
      System.err.println("usage: Translate FOLDER TEXT...");
      System.exit(2);
    }
    try (Translator translator = new Translator(arguments[0])) {
      for (String text : translator.translate(Arrays.copyOfRange(arguments, 1, arguments.length))) {
        System.out.println(text);
      }
    } catch (IllegalArgumentException error) {
      System.err.println("Translate: " + error.getMessage());
      System.exit(1);
    }
  }
}
