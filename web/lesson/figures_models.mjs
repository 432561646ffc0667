// Whole models: the Transformer around attention, what weights do not tell, patches of a picture.
import { readFileSync } from "node:fs";
import { explain } from "./program.mjs";
import { arrow, bar, box, line, map, picture, shares, text } from "./svg.mjs";

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
  const names = ["class", ...Array.from({ length: rows * columns }, (_, i) => `${Math.floor(i / columns)},${i % columns}`)];
  const best = [...seen.heads].sort((a, b) => Math.max(...b.patches.flat()) - Math.max(...a.patches.flat()))[0];
  const cells = (x, y, from_row, from_column, count, size) =>
    map(x, y, grey.slice(from_row, from_row + count).map((row) => row.slice(from_column, from_column + count)), size, "none");
  return picture(414, [
    text(16, 24, "8 x 8 pixels", { is: "p-ink p-strong" }),
    cells(16, 34, 0, 0, grey.length, 14),
    line([[16 + patch * 14 - 0.5, 30], [16 + patch * 14 - 0.5, 150]], "query"),
    line([[12, 34 + patch * 14 - 0.5], [132, 34 + patch * 14 - 0.5]], "query"),
    arrow([142, 90], [168, 90]),
    text(180, 24, `${rows * columns} patches of ${patch} x ${patch}`, { is: "p-ink p-strong" }),
    Array.from({ length: rows * columns }, (_, i) =>
      cells(180 + (i % columns) * 84, 34 + Math.floor(i / columns) * 64, Math.floor(i / columns) * patch, (i % columns) * patch, patch, 12),
    ),
    text(16, 180, `${names.length} tokens, in a row as words are`, { is: "p-ink p-strong" }),
    names.map((name, i) => [
      box(16 + i * 66, 190, 58, 26, i === 0 ? "query" : "input", 0.15),
      text(45 + i * 66, 207, name, { size: 11.5, at: "middle" }),
    ]),
    text(16, 250, "Rollout of class", { is: "p-ink p-strong" }),
    shares(16, 260, seen.rollout, 48),
    text(180, 250, `Layer ${best.layer}, head ${best.head}`, { is: "p-ink p-strong" }),
    shares(180, 260, best.patches, 48),
    text(16, 384, "The darker, the more of the class token's attention;", { size: 11.5 }),
    text(16, 401, `the darkest patch of that head has ${Math.max(...best.patches.flat()).toFixed(3)}.`, { size: 11.5 }),
  ]);
}
