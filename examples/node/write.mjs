// What a language model writes behind a prompt, shown as it grows, by koffi.
//
//     npm install && QKV_LIBRARY=/usr/local/lib/libqkv.so node write.mjs FOLDER PROMPT [TOKENS]
import koffi from "koffi";
import { argv, env, exit, stderr, stdout } from "node:process";

const OK = 0;
const GENERATE = 5;
const STORE_F32 = 0;

const library = koffi.load(env.QKV_LIBRARY ?? "libqkv.so");
koffi.opaque("qkv_model");
koffi.proto("int OnText(void* context, const char* piece)");
koffi.struct("qkv_generate_options", {
  form: "int",
  choice: "int",
  max_new_tokens: "int64_t",
  beams: "int64_t",
  repetition_penalty: "double",
  temperature: "double",
  top_p: "double",
  top_k: "int64_t",
  min_p: "double",
  seed: "uint64_t",
  on_text: "OnText*",
  context: "void*",
});
const message = library.func("const char* qkv_message()");
const open = library.func("int qkv_open(const char* folder, int task, int storage, _Out_ qkv_model** model)");
const close = library.func("void qkv_close(qkv_model* model)");
const free = library.func("void qkv_free(void* block)");
const generate = library.func(
  "int qkv_generate(qkv_model* model, const char* prompt, qkv_generate_options* options, _Out_ void** text)",
);

function checked(status) {
  if (status !== OK) throw new Error(message());
}

function write(folder, prompt, tokens, onText) {
  const model = [null];
  const text = [null];
  checked(open(folder, GENERATE, STORE_F32, model));
  try {
    // 0 and null are defaults.
    const options = { form: 0, choice: 0, max_new_tokens: tokens, beams: 0, repetition_penalty: 0, temperature: 0 };
    Object.assign(options, { top_p: 0, top_k: 0, min_p: 0, seed: 0, on_text: onText, context: null });
    checked(generate(model[0], prompt, options, text));
    return koffi.decode(text[0], "char", -1);
  } finally {
    free(text[0]);
    close(model[0]);
  }
}

const [folder, prompt, tokens = "20"] = argv.slice(2);
if (prompt === undefined) {
  stderr.write("usage: write.mjs FOLDER PROMPT [TOKENS]\n");
  exit(2);
}
try {
  write(folder, prompt, Number(tokens), (context, piece) => {
    stdout.write(piece);
    return 0; // 1 ends the text
  });
  stdout.write("\n");
} catch (error) {
  stderr.write(`write: ${error.message}\n`);
  exit(1);
}
