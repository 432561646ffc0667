// The first chapters: what attention replaced, the three roles, near and far.
import { counted, explain, tensor } from "./program.mjs";
import { arrow, box, line, map, matrix, picture, text } from "./svg.mjs";

// One row of positions, and the way from the first to the last.
function positions(y, chosen, count = 9) {
  return Array.from({ length: count }, (_, i) =>
    box(24 + i * 36, y, 22, 22, i === chosen ? "output" : "input", i === chosen || i === 0 ? 0.55 : 0.1),
  );
}

export function why() {
  const { rnn, cnn, transformer } = counted();
  const x = (i) => 35 + i * 36;
  const facts = (y, name, one) => [
    text(16, y, name, { is: "p-ink p-strong" }),
    text(16, y + 17, `128 tokens: path ${one.path}, steps ${one.steps}, reach ${one.reach >= 127 ? "all" : `${one.reach} tokens`}`, { size: 11 }),
    text(16, y + 33, `operations a token: ${one.operations[0].toLocaleString("en")} in 64 tokens, ${one.operations[1].toLocaleString("en")} in 1,024`, { size: 11 }),
  ];
  return picture(468, [
    facts(24, "Recurrent network: token by token", rnn),
    positions(66, 8),
    Array.from({ length: 8 }, (_, i) => arrow([x(i) + 11, 77], [x(i + 1) - 11, 77])),
    facts(120, "Convolutions: as far as the layers reach", cnn),
    positions(212, 8),
    [
      [8, 196, 7, 1],
      [7, 184, 5, 2],
      [5, 172, 1, 4],
    ].map(([from, y, to]) => line([[x(from), y + 12], [x(from), y], [x(to), y], [x(to), y + 12]], "score")),
    text(24, 250, "beyond the reach", { size: 11, is: "p-faint" }),
    facts(276, "Attention: straight to every token", transformer),
    positions(414, 8),
    Array.from({ length: 8 }, (_, i) => {
      const height = 14 + (8 - i) * 9;
      return line([[x(i), 414], [x(i), 414 - height * 0.5], [(x(i) + x(8)) / 2, 414 - height], [x(8), 414 - height * 0.5], [x(8), 414]], "weight", i === 0 ? 1 : 0.45);
    }),
    text(24, 454, "first token", { size: 11, is: "p-faint" }),
    text(334, 454, "the one that asks", { size: 11, is: "p-faint", at: "end" }),
  ]);
}

export function roles() {
  const steps = explain();
  const strong = (i) => (_, row) => (row === i ? 0.4 : 0.08);
  return picture(378, [
    matrix(20, 32, "inputs", tensor(steps, "inputs"), "input", { shade: strong(0) }),
    ["query", "key", "value"].flatMap((role, i) => {
      const y = 32 + i * 120;
      return [
        matrix(150, y, `w_${role}`, tensor(steps, `w_${role}`), role, { cell: 24 }),
        matrix(266, y, role, tensor(steps, role), role, { shade: strong(0) }),
        text(238, y + 40, "gives", { size: 10, at: "middle", is: "p-faint" }),
        text(130, y + 40, "x", { size: 13, at: "middle", is: "p-faint" }),
        line([[88, 104], [88, y + 36], [122, y + 36]], "input", i === 0 ? 0 : 0.7),
      ];
    }),
    text(20, 150, "the same", { size: 11, is: "p-faint" }),
    text(20, 164, "input,", { size: 11, is: "p-faint" }),
    text(20, 178, "three", { size: 11, is: "p-faint" }),
    text(20, 192, "views", { size: 11, is: "p-faint" }),
  ]);
}

export function near_and_far() {
  const words = "Open the file and save it.";
  const heads = [
    [0, 3],
    [2, 3],
  ].map(([layer, head]) => explain("--text", words, "--attention", "encoder", "--layer", layer, "--head", head));
  const size = 17;
  return picture(418, [
    heads.map((head, n) => {
      const top = 50 + n * 210;
      return [
        text(16, top - 30, `layer ${head.layer}, head ${head.head}`, { is: "p-ink p-strong" }),
        text(130, top - 30, `distance ${head.summary.distance.toFixed(2)}, entropy ${head.summary.entropy.toFixed(2)}: ${Math.exp(head.summary.entropy).toFixed(1)} keys`, {}),
        head.tokens.map((token, i) => text(82, top + i * size + 13, token, { size: 11, at: "end" })),
        map(88, top, head.weights, size),
        text(88, top - 6, "keys, in the same order", { size: 10.5, is: "p-faint" }),
        text(88 + head.keys.length * size + 10, top + 14, n === 0 ? "near:" : "far:", { is: "p-ink p-strong" }),
        (n === 0 ? ["most weight", "beside the", "diagonal"] : ["weight on", "tokens of the", "whole text"]).map((each, i) =>
          text(88 + head.keys.length * size + 10, top + 32 + i * 16, each, { size: 11.5 }),
        ),
      ];
    }),
  ]);
}
