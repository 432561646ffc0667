// The whole computation as one small picture: inputs, their queries, keys and values, scores, weights, and outputs that
// ribbons as wide as the weights lead to. The part that a step computes is lit, and leads to that step.
import { svg, type TemplateResult } from "lit-html";
import { format_address } from "../address";
import { css, heat, mixed, type Rgb, signed } from "../colors";
import type { Role } from "../explanation";
import { short } from "../heads/map";
import { largest } from "../numbers";
import type { Screen } from "../screen";
import { picture, rect, text } from "../shapes";
import type { Walk } from "./tensors";

const kMost = 32; // inputs; of more there is no such picture
const kTop = 40; // pixels

interface Part {
  step: number;
  title: string;
  x: number;
  width: number;
  draw(x: number): unknown;
}

export function overview(walk: Walk, step: number, query: number, screen: Screen): TemplateResult | null {
  const { tensors } = walk;
  const n = tensors.size("inputs", -2);
  const m = tensors.size("weights", -1);
  if (n === 0 || n > kMost || m > kMost || !tensors.has("weights") || !tensors.has("query") || !tensors.has("value")) return null;
  const { colors } = screen;
  const head = (tensors.get("weights")?.shape.length ?? 2) > 2 ? [0] : [];
  // `of_matrix`: of scores and weights, at most. On a telephone the picture is as small as its text can be read.
  const [name_width, ribbon, gap, largest_square, of_matrix, size] = screen.narrow ? [58, 38, 10, 15, 54, 12] : [66, 66, 12, 22, 84, 11];
  const row = Math.max(7, Math.min(screen.narrow ? 24 : 30, 210 / Math.max(n, m)));
  const y = (i: number): number => kTop + row * i;
  const names = tensors.get("inputs")?.rows ?? [];
  const square = Math.min(largest_square, row - 2);
  const cell = Math.min(row, of_matrix / m);
  const strong = (i: number): boolean => step === 8 || i === query;
  const labels = (fill: Rgb, x: number, of: number, anchor: "start" | "end" = "start") =>
    Array.from({ length: row < 11 ? 0 : of }, (_, i) =>
      text(x, y(i) + row / 2 + 4, short(names[i] ?? String(i + 1), screen.narrow ? 8 : 9), { fill: strong(i) ? colors.ink : fill, anchor, bold: strong(i), size }),
    );
  const squares = (role: Role, x: number, of: number) =>
    Array.from({ length: of }, (_, i) =>
      rect(
        { x, y: y(i) + (row - square) / 2, width: square, height: square },
        { fill: mixed(colors.paper, colors.roles[role], 0.55), stroke: colors.roles[role], round: 3 },
      ),
    );
  const matrix = (x: number, shade: (i: number, j: number) => Rgb) => [
    Array.from({ length: n * m }, (_, k) => {
      const [i, j] = [Math.floor(k / m), k % m];
      return rect({ x: x + cell * j, y: y(i), width: cell, height: row }, { fill: shade(i, j) });
    }),
    rect({ x, y: y(0), width: cell * m, height: row * n }, { stroke: colors.strong }),
    rect({ x, y: y(query), width: cell * m, height: row }, { stroke: colors.roles.query, thick: 2 }),
  ];
  const logit = (i: number, j: number): number => tensors.at(tensors.has("logits") ? "logits" : "scores", ...head, i, j);
  const weight = (i: number, j: number): number => tensors.at("weights", ...head, i, j);
  const most = largest(Array.from({ length: n * m }, (_, k) => logit(Math.floor(k / m), k % m))) || 1;
  const ribbons = (x: number): unknown => {
    const lines: TemplateResult[] = [];
    const all = Array.from({ length: n }, (_, i) => i).sort((a, b) => Number(strong(a)) - Number(strong(b)));
    for (const i of all) {
      for (let j = 0; j < m; ++j) {
        const width = weight(i, j) * row * 0.8;
        if (!(width > 0.2)) continue;
        const [from, to, mid] = [y(j) + row / 2, y(i) + row / 2, x + ribbon / 2];
        lines.push(svg`<path d=${`M${x} ${from}C${mid} ${from} ${mid} ${to} ${x + ribbon} ${to}`} fill="none"
          stroke=${css(colors.roles.weight)} stroke-width=${width.toFixed(1)} opacity=${strong(i) ? 0.7 : 0.12}></path>`);
      }
    }
    return lines;
  };
  const of_heads = head.length > 0;
  const parts: Omit<Part, "x">[] = [
    { step: 1, title: "inputs", width: name_width + square, draw: (x) => [labels(colors.faint, x + name_width - 4, n, "end"), squares("input", x + name_width, n)] },
    {
      step: 3,
      title: "Q  K  V",
      width: 3 * square + 8,
      draw: (x) => [squares("query", x, n), squares("key", x + square + 4, m), squares("value", x + 2 * (square + 4), m)],
    },
    { step: 4, title: "scores", width: cell * m, draw: (x) => matrix(x, (i, j) => signed(colors, logit(i, j) / most, "score")) },
    { step: 5, title: "weights", width: cell * m, draw: (x) => matrix(x, (i, j) => heat(colors, weight(i, j))) },
    { step: 6, title: "x values", width: square + 4 + ribbon, draw: (x) => [squares("value", x, m), ribbons(x + square + 2)] },
    { step: of_heads ? 8 : 7, title: "outputs", width: square + (screen.narrow ? 34 : name_width), draw: (x) => [squares("output", x, n), screen.narrow ? [] : labels(colors.faint, x + square + 5, n)] },
  ];
  const placed: Part[] = [];
  let x = 6;
  for (const part of parts) {
    placed.push({ ...part, x });
    x += part.width + gap;
  }
  const lit = (part: Part): boolean => step === part.step || (step === 2 && part.step === 3) || (step === 8 && part.step >= 4) || (of_heads && step === 7 && part.step === 6);
  const bottom = y(Math.max(n, m)) + 6;
  const whose = of_heads ? ", head 1" : "";
  const drawn = placed.map((part, k) => {
    const frame = { x: part.x - 5, y: 18, width: part.width + 10, height: bottom - 18 };
    const fill = lit(part) ? mixed(colors.paper, colors.roles.score, 0.14) : undefined;
    const label = `Step ${part.step}: ${part.title}`;
    return [
      k > 0 ? text(part.x - gap / 2, kTop + (row * n) / 2 + 4, "\u203a", { fill: colors.faint, anchor: "middle" }) : [],
      svg`<a href=${format_address({ ...screen.address, view: "steps", step: part.step, cell: "" })} aria-label=${label}
        aria-current=${lit(part) ? "step" : "false"}>
        ${rect(frame, { fill: fill ?? colors.paper, ...(fill ? { stroke: colors.roles.score, thick: 1.5 } : {}), round: 6 })}
        ${text(part.x + part.width / 2, 32, part.title, { fill: lit(part) ? colors.ink : colors.faint, anchor: "middle", bold: lit(part), size })}
        ${part.draw(part.x)}</a>`,
    ];
  });
  const title = `From inputs to outputs: ${short(names[query] ?? `input ${query + 1}`)}${whose}`;
  return picture(x, bottom + 2, colors.paper, 12, [text(6, 12, title, { fill: colors.ink, bold: true }), drawn]);
}
