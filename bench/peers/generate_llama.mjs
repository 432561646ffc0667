// llama.cpp's side of generate_peers.py: FILE.gguf THREADS PROMPT LONG, the last two lists of ids in JSON, prints in JSON how many
// milliseconds 48 tokens take behind the prompt, greedily, and the first one behind the long prompt, best of three. Needs the
// node_modules of npm's node-llama-cpp beside this file.
import { getLlama } from "node-llama-cpp";

const [file, threads, prompt, long] = process.argv.slice(2);
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: Number(threads) });
const model = await llama.loadModel({ modelPath: file });
const context = await model.createContext({ contextSize: 1024, batchSize: 512, threads: Number(threads) });
const sequence = context.getSequence();

async function milliseconds(ids, count) {
  await sequence.clearHistory();
  const begin = performance.now();
  let first = 0, written = 0;
  for await (const _ of sequence.evaluate(ids, { temperature: 0, yieldEogToken: true })) {
    if (++written === 1) first = performance.now();
    if (written === count) break;
  }
  return { first: first - begin, rest: performance.now() - first };
}

const best = { decode: Infinity, prefill: Infinity };
for (let round = 0; round < 3; ++round) {
  best.decode = Math.min(best.decode, (await milliseconds(JSON.parse(prompt), 49)).rest);
  best.prefill = Math.min(best.prefill, (await milliseconds(JSON.parse(long), 1)).first);
}
console.log(JSON.stringify(best));
process.exit(0);
