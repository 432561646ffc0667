// llama.cpp's side of generate_peers.py: FILE.gguf THREADS TOKENS PROMPT writes so many tokens behind the prompt, greedily, and
// prints them. Needs the node_modules of npm's node-llama-cpp beside this file.
import { getLlama } from "node-llama-cpp";

const [file, threads, count, prompt] = process.argv.slice(2);
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: Number(threads) });
const model = await llama.loadModel({ modelPath: file });
const context = await model.createContext({ contextSize: 512, batchSize: 64, threads: Number(threads) });
const written = [];
for await (const token of context.getSequence().evaluate(model.tokenize(prompt), { temperature: 0 })) {
  written.push(token);
  if (written.length === Number(count)) break;
}
console.log(model.detokenize(written));
process.exit(0);
