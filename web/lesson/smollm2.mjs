// web/lesson/smollm2.mjs FOLDER: writes smollm2.json, what the program says of SmolLM2-135M-Instruct (models/get-smollm2,
// then qkv convert) and what the lesson's last picture shows of it. The model is no part of the repository.
import { writeFileSync } from "node:fs";
import { explain } from "./program.mjs";

const found = explain("--model", process.argv[2], "--text", "The capital of France is Paris. The capital of Italy is", "--weights");
const [{ layers, heads, kv_heads, model_dim, all }] = found.attentions;
const rounded = (x) => Number(x.toFixed(3));
// The head of which most does that.
const most = (share) => {
  const { layer, head, [share]: value, weights } = all.reduce((best, one) => (one[share] > best[share] ? one : best));
  return { layer, head, share: rounded(value), weights: weights.map((row) => row.map(rounded)) };
};
const { token, probability, candidates, layers: guesses } = found.continuation.written.at(-1);
const brief = (one) => ({ token: one.token.trim(), probability: rounded(one.probability) });
const data = {
  model: { layers, heads, kv_heads, model_dim },
  tokens: found.sequences[0].tokens,
  previous: most("previous"),
  induction: most("induction"),
  first: most("first"),
  next: { ...brief({ token, probability }), candidates: candidates.map(brief) },
  guesses: guesses.map((one) => ({ ...brief(one), written: rounded(one.written) })),
};
writeFileSync(new URL("smollm2.json", import.meta.url), `${JSON.stringify(data)}\n`);
