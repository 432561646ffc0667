// Whole models: the Transformer around attention, what weights do not tell, patches of a picture, a model that writes.
import { readFileSync } from "node:fs";
import { explain } from "./program.mjs";
import { arrow, bar, box, line, map, picture, pixels, shares, text } from "./svg.mjs";

export function transformer() {
  const config = JSON.parse(readFileSync(new URL("../../models/en-es/config.json", import.meta.url), "utf8"));
  const { d_model, encoder_layers, decoder_layers, encoder_attention_heads, encoder_ffn_dim } = config;
  const part = (x, y, name, role, share = 0.3) => [
    box(x, y, 148, 30, role, share),
    text(x + 74, y + 19, name, { size: 11.5, at: "middle" }),
  ];
  const norm = (x, y) => text(x + 74, y + 12, "+ its input, then norm", { size: 11, at: "middle", is: "p-faint" });
  const up = (x, y, to) => arrow([x, y], [x, to]);
  return picture(464, [
    text(16, 22, `Encoder, ${encoder_layers} layers`, { is: "p-ink p-strong" }),
    text(196, 22, `Decoder, ${decoder_layers} layers`, { is: "p-ink p-strong" }),
    line([[12, 130], [12, 330], [172, 330], [172, 130], [12, 130]]),
    line([[188, 64], [188, 330], [348, 330], [348, 64], [188, 64]]),
    part(18, 286, "self-attention", "weight"),
    norm(18, 258),
    part(18, 214, `feed-forward, ${encoder_ffn_dim}`, "none", 0.1),
    norm(18, 186),
    part(194, 286, "masked self-attention", "weight"),
    norm(194, 258),
    part(194, 214, "attention to the source", "weight"),
    norm(194, 186),
    part(194, 142, `feed-forward, ${encoder_ffn_dim}`, "none", 0.1),
    norm(194, 114),
    line([[92, 130], [92, 104], [180, 104], [180, 229]], "key"),
    arrow([180, 229], [194, 229], "key"),
    text(96, 96, "keys, values", { role: "key", size: 11.5, at: "middle" }),
    up(92, 358, 332),
    up(268, 358, 332),
    part(18, 360, "embedding + positions", "input", 0.15),
    part(194, 360, "embedding + positions", "input", 0.15),
    text(92, 410, "You are welcome", { size: 12, at: "middle" }),
    text(268, 410, "De, so far", { size: 12, at: "middle" }),
    up(268, 62, 46),
    text(268, 40, "the next token", { size: 12, at: "middle", role: "output" }),
    text(16, 436, `A token is ${d_model} numbers all the way;`, { size: 11.5 }),
    text(16, 453, `each attention has ${encoder_attention_heads} heads of ${d_model / encoder_attention_heads}.`, { size: 11.5 }),
  ]);
}

export function not_told() {
  const head = explain("--text", "You are welcome", "--attention", "encoder-decoder", "--layer", 1, "--head", 2);
  const row = head.tokens.indexOf("nada");
  const columns = [
    ["Weight of each key", "weight", head.weights[row]],
    ["Length of its value, as it leaves W_O", "value", head.value_lengths],
    ["Weight x length: what arrives", "output", head.value_norms[row]],
  ];
  return picture(584, [
    columns.map(([name, role, values], n) => {
      const top = 24 + n * 190,
        most = Math.max(...values);
      return [
        text(16, top, name, { is: "p-ink p-strong" }),
        head.keys.map((key, i) => bar(16, top + 12 + i * 22, key, values[i], (values[i] / most) * 200, role, values[i].toFixed(3))),
      ];
    }),
  ]);
}

export function patches() {
  const seen = explain("--model", "models/digits", "--image", "data/example/seven.png");
  const grey = seen.pixels.map((row) => row.map(([red]) => red / 255));
  const [rows, columns] = seen.grid;
  const patch = grey.length / rows;
  const best = [...seen.heads].sort((a, b) => Math.max(...b.patches.flat()) - Math.max(...a.patches.flat()))[0];
  const cut = (i) => {
    const [top, left] = [Math.floor(i / columns) * patch, (i % columns) * patch];
    return grey.slice(top, top + patch).map((row) => row.slice(left, left + patch));
  };
  const between = [1, 2, 3].map((i) => i * patch * 5);
  const all = Array.from({ length: rows * columns }, (_, i) => i);
  return picture(470, [
    text(16, 24, `${grey.length} x ${grey.length} pixels`, { is: "p-ink p-strong" }),
    pixels([[16, 34, grey]], 5),
    between.map((at) => [line([[16 + at, 31], [16 + at, 177]], "query"), line([[13, 34 + at], [159, 34 + at]], "query")]),
    arrow([166, 104], [186, 104]),
    text(196, 24, `${all.length} patches of ${patch} x ${patch}`, { is: "p-ink p-strong" }),
    pixels(all.map((i) => [196 + (i % columns) * 37, 34 + Math.floor(i / columns) * 37, cut(i)]), 4),
    text(16, 204, `${all.length + 1} tokens, in a row as words are`, { is: "p-ink p-strong" }),
    box(16, 214, 42, 22, "query", 0.15),
    text(37, 229, "class", { size: 11.5, at: "middle" }),
    pixels(all.map((i) => [64 + i * 18, 218, cut(i)]), 2),
    text(16, 266, "Rollout of class", { is: "p-ink p-strong" }),
    shares(16, 276, seen.rollout, 36),
    text(196, 266, `Layer ${best.layer}, head ${best.head}`, { is: "p-ink p-strong" }),
    shares(196, 276, best.patches, 36),
    text(16, 440, "The darker, the more of the class token's attention;", { size: 11.5 }),
    text(16, 457, `the darkest patch of that head has ${Math.max(...best.patches.flat()).toFixed(3)}.`, { size: 11.5 }),
  ]);
}

// Of SmolLM2, from what smollm2.mjs keeps.
export function writes() {
  const { model, tokens, induction, guesses, next } = JSON.parse(readFileSync(new URL("smollm2.json", import.meta.url), "utf8"));
  const group = model.heads / model.kv_heads;
  const step = 328 / model.heads;
  const size = model.model_dim / model.heads;
  const top = 176,
    cell = 14;
  const lower = top + tokens.length * cell + 42;
  const shown = [29, 28, 27, 26, 24, 22, 18, 12, 3];
  return picture(lower + shown.length * 20 + 12, [
    text(16, 22, `${model.heads} heads of queries share ${model.kv_heads} of keys and values`, { is: "p-ink p-strong" }),
    Array.from({ length: model.heads }, (_, h) => {
      const x = 16 + h * step;
      const to = 16 + (Math.floor(h / group) + 0.5) * group * step;
      return [
        box(x, 32, step - 6, 24, "query", 0.2),
        text(x + step / 2 - 3, 48, h, { size: 11, at: "middle" }),
        line([[x + step / 2 - 3, 56], [to - 3, 78]], "key"),
      ];
    }),
    Array.from({ length: model.kv_heads }, (_, g) => [
      box(16 + g * group * step, 78, (group * step - 10) / 2, 24, "key", 0.2),
      text(16 + g * group * step + (group * step - 10) / 4, 94, `keys ${g}`, { size: 11, at: "middle" }),
      box(16 + g * group * step + (group * step - 6) / 2, 78, (group * step - 10) / 2, 24, "value", 0.2),
      text(16 + g * group * step + (group * step - 6) * 0.75, 94, `values ${g}`, { size: 11, at: "middle" }),
    ]),
    text(16, 122, `A token takes ${2 * model.kv_heads * size} numbers of cache in each of ${model.layers} layers.`, { size: 11 }),
    text(16, 150, `Layer ${induction.layer}, head ${induction.head}: what followed last time?`, { is: "p-ink p-strong" }),
    text(16, 167, "A row for each token read, a column for each key", { size: 11.5, is: "p-faint" }),
    tokens.map((token, i) => text(78, top + i * cell + 11, token.replace("##", ""), { size: 11, at: "end" })),
    map(84, top, induction.weights.map((row, i) => row.slice(0, i + 1)), cell),
    [8, 9, 11].map((i) => {
      const row = induction.weights[i];
      const best = row.indexOf(Math.max(...row));
      return text(262, top + i * cell + 11, `${row[best].toFixed(3)} to ${tokens[best]}`, { size: 11, role: "weight" });
    }),
    text(16, lower - 16, "What each layer would have written next", { is: "p-ink p-strong" }),
    shown.map((layer, n) => {
      const { token, probability } = guesses[layer];
      const role = token === next.token ? "output" : "none";
      return bar(16, lower + n * 20 - 6, `${layer} ${token}`, probability, probability * 200, role, probability.toFixed(3));
    }),
  ]);
}
