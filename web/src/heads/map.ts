// One head large as a map: a row for each query, a column for each key.
import { svg, type TemplateResult } from "lit-html";
import { change, type Colors, css, heat, readable, type Rgb } from "../colors";
import { change_image, heat_image, scale_of } from "../grid";
import type { Hidden } from "./hidden";
import type { HeadLines } from "./several";
import { clamp, number_text, signed_text } from "../numbers";
import type { Screen } from "../screen";
import { type Box, image, picture, rect, text } from "../shapes";

// A query alone; added to those that are chosen, or taken from them; added as the last one moves on.
export type Picked = "alone" | "toggle" | "extend";
export const picked_by = (event: MouseEvent, screen: Screen): Picked =>
  event.shiftKey || screen.address.several ? "toggle" : "alone";

// What the three ways to draw a head share.
export interface Drawn {
  weights: number[][];
  queries: readonly string[];
  keys: readonly string[];
  query: number; // chosen; -1: none
  also?: readonly number[]; // further queries that are chosen: the weights of all of them are added
  key: number;
  lines?: readonly HeadLines[] | null; // of several heads, for lines
  hidden?: Hidden | null; // what a mask hides
  pick(query: number, key: number, how?: Picked): void;
  room: number; // pixels for it, with its labels
  most?: number | undefined; // the weights are differences, of which this is the largest
  screen: Screen;
}

export const chosen_of = ({ query, also }: Drawn): number[] => (query < 0 ? [] : [query, ...(also ?? [])]);

// The weights of the chosen query, of several their sum; null: none is chosen.
export function row_of(drawn: Drawn): number[] | null {
  const rows = chosen_of(drawn).flatMap((i) => (drawn.weights[i] ? [drawn.weights[i]] : []));
  const [first, ...others] = rows;
  return first ? first.map((weight, j) => others.reduce((sum, row) => sum + (row[j] ?? 0), weight)) : null;
}

export const shade = ({ weights, most, screen }: Drawn, weight: number): Rgb =>
  most === undefined ? heat(screen.colors, weight / scale_of(weights)) : change(screen.colors, weight / (most || 1));

// A weight as a part of the largest that is drawn.
export const part_of = ({ weights, most }: Drawn, weight: number): number =>
  Math.min(1, most === undefined ? weight / scale_of(weights) : Math.abs(weight) / (most || 1));

// Labels longer than this are cut.
const kLongest = 16; // characters
export function short(label: string, longest = kLongest): string {
  const characters = [...label.slice(0, 8 * longest)];
  return characters.length > longest ? `${characters.slice(0, longest - 1).join("")}\u2026` : label;
}
export const width_of = (labels: readonly string[]): number =>
  Math.min(8 * kLongest, 12 + 8 * Math.max(1, ...labels.map((label) => [...label].length)));

// A stroke through each pair that is hidden.
function crosses(hidden: Hidden, { queries, keys }: Drawn, grid: Box, cell: number, colors: Colors): TemplateResult {
  const strokes: string[] = [];
  queries.forEach((_, i) =>
    keys.forEach((_key, j) => {
      if (hidden.rule_of(i, j) > 0) strokes.push(`M${grid.x + cell * j} ${grid.y + cell * (i + 1)}l${cell} ${-cell}`);
    }),
  );
  return svg`<path d=${strokes.join("")} stroke=${css(colors.strong)} fill="none"></path>`;
}

const weight_text = (weight: number, decimals = 2): string =>
  Number.isFinite(weight) ? weight.toFixed(decimals).replace(/^(-?)0/, "$1") : number_text(weight);

// How far a turned label reaches to the right of where it begins.
const reach_of = (label: string): number => 4 + 5 * [...short(label)].length;
const kNarrow = 330; // pixels of a map with its labels on a telephone

export function map_picture(drawn: Drawn): TemplateResult {
  const { weights, queries, keys, key, screen } = drawn;
  const { colors } = screen;
  const most = Math.max(queries.length, keys.length);
  const left = width_of(queries);
  const room = screen.narrow ? kNarrow : drawn.room;
  const least = most > 64 ? 4 : screen.narrow ? 8 : room < 500 ? 11 : 18;
  const cell = clamp((room - left - reach_of(keys.at(-1) ?? "")) / most, least, 44);
  const every = Math.max(1, Math.ceil(14 / cell)); // one label each so many
  const grid = {
    x: left,
    y: width_of(keys) * 0.8 + 10,
    width: cell * keys.length,
    height: cell * queries.length,
  };
  const click = (event: MouseEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const column = ((event.clientX - box.left) / box.width) * keys.length;
    const row = ((event.clientY - box.top) / box.height) * queries.length;
    drawn.pick(clamp(row, 0, queries.length - 1), clamp(column, 0, keys.length - 1), picked_by(event, screen));
  };
  const chosen = chosen_of(drawn);
  const sum = chosen.length > 1 ? row_of(drawn) : null;
  const shown = (i: number, is_chosen: boolean): boolean => i % every === 0 || is_chosen;
  const look = (is_chosen: boolean) => ({ fill: is_chosen ? colors.ink : colors.faint, bold: is_chosen });
  const row_labels = queries.map((label, i) => {
    const y = grid.y + cell * (i + 0.5) + 4;
    const own = chosen.includes(i);
    return shown(i, own) ? text(grid.x - 8, y, short(label), { ...look(own), anchor: "end" }) : [];
  });
  const column_labels = keys.map((label, j) => {
    const x = grid.x + cell * (j + 0.5);
    return shown(j, j === key) ? text(x, grid.y - 7, short(label), { ...look(j === key), turn: -50 }) : [];
  });
  const said = (weight: number): string =>
    drawn.most === undefined ? weight_text(weight) : signed_text(weight_text(weight, drawn.most < 0.1 ? 3 : 2), weight);
  const number = (weight: number, i: number, j: number): TemplateResult => {
    const fill = readable(colors, shade(drawn, weight));
    const [x, y] = [grid.x + cell * (j + 0.5), grid.y + cell * (i + 0.5) + 4];
    return text(x, y, said(weight), { fill, anchor: "middle", size: 11 });
  };
  const numbers = screen.address.numbers && cell >= 34;
  const below = { ...grid, y: grid.y + grid.height + 10, height: cell }; // of the sum
  const column = { ...grid, x: grid.x + cell * key, width: cell };
  const ends = keys.map((label, j) => (shown(j, j === key) ? cell * (j + 0.5) + reach_of(label) : 0));
  const height = sum ? below.y + cell : grid.y + grid.height;
  return picture(grid.x + Math.max(grid.width + 8, ...ends), height + 8, colors.paper, 12.5, [
    row_labels,
    column_labels,
    image(grid, drawn.most === undefined ? heat_image(weights, colors) : change_image(weights, drawn.most, colors)),
    drawn.hidden ? crosses(drawn.hidden, drawn, grid, cell, colors) : [],
    numbers ? weights.map((one, i) => one.map((weight, j) => number(weight, i, j))) : [],
    rect(grid, { stroke: colors.line, click }),
    chosen.map((i) =>
      rect({ ...grid, y: grid.y + cell * i, height: cell }, { stroke: colors.roles.query, thick: 2 }),
    ),
    sum
      ? [
          text(below.x - 8, below.y + cell / 2 + 4, "sum", { fill: colors.roles.query, bold: true, anchor: "end" }),
          sum.map((weight, j) => {
            const fill = shade(drawn, weight);
            const box = { x: grid.x + cell * j, y: below.y, width: cell, height: cell };
            const label = { fill: readable(colors, fill), anchor: "middle", size: 11 } as const;
            const number = numbers ? text(box.x + cell / 2, box.y + cell / 2 + 4, said(weight), label) : [];
            return [rect(box, { fill }), number];
          }),
          rect(below, { stroke: colors.roles.query, thick: 2 }),
        ]
      : [],
    key >= 0 ? rect(column, { stroke: colors.roles.key, thick: 2 }) : [],
  ]);
}
