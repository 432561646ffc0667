// One head large as a map: a row for each query, a column for each key.
import type { TemplateResult } from "lit-html";
import { heat, readable } from "./colors";
import { heat_image } from "./grid";
import { clamp, number_text } from "./numbers";
import type { Screen } from "./screen";
import { image, picture, rect, text } from "./shapes";

// What the three ways to draw a head share.
export interface Drawn {
  weights: number[][];
  queries: readonly string[];
  keys: readonly string[];
  query: number; // chosen; -1: none
  key: number;
  pick(query: number, key: number): void;
  room: number; // pixels for its columns
  screen: Screen;
}

// Labels longer than this are cut.
const kLongest = 16; // characters
export function short(label: string, longest = kLongest): string {
  const characters = [...label.slice(0, 8 * longest)];
  return characters.length > longest ? `${characters.slice(0, longest - 1).join("")}\u2026` : label;
}
export const width_of = (labels: readonly string[]): number =>
  Math.min(8 * kLongest, 12 + 8 * Math.max(1, ...labels.map((label) => [...label].length)));

const weight_text = (weight: number): string =>
  Number.isFinite(weight) ? weight.toFixed(2).replace(/^0/, "") : number_text(weight);

export function map_picture(drawn: Drawn): TemplateResult {
  const { weights, queries, keys, query, key, screen } = drawn;
  const { colors } = screen;
  const most = Math.max(queries.length, keys.length);
  const cell = clamp(drawn.room / most, most > 64 ? 4 : 18, 44);
  const every = Math.max(1, Math.ceil(14 / cell)); // one label each so many
  const grid = {
    x: width_of(queries),
    y: width_of(keys) * 0.8 + 10,
    width: cell * keys.length,
    height: cell * queries.length,
  };
  const click = (event: MouseEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const column = ((event.clientX - box.left) / box.width) * keys.length;
    const row = ((event.clientY - box.top) / box.height) * queries.length;
    drawn.pick(clamp(row, 0, queries.length - 1), clamp(column, 0, keys.length - 1));
  };
  const shown = (i: number, chosen: number): boolean => i % every === 0 || i === chosen;
  const look = (chosen: boolean) => ({ fill: chosen ? colors.ink : colors.faint, bold: chosen });
  const row_labels = queries.map((label, i) => {
    const y = grid.y + cell * (i + 0.5) + 4;
    return shown(i, query) ? text(grid.x - 8, y, short(label), { ...look(i === query), anchor: "end" }) : [];
  });
  const column_labels = keys.map((label, j) => {
    const x = grid.x + cell * (j + 0.5);
    return shown(j, key) ? text(x, grid.y - 7, short(label), { ...look(j === key), turn: -50 }) : [];
  });
  const number = (weight: number, i: number, j: number): TemplateResult => {
    const fill = readable(colors, heat(colors, weight));
    const [x, y] = [grid.x + cell * (j + 0.5), grid.y + cell * (i + 0.5) + 4];
    return text(x, y, weight_text(weight), { fill, anchor: "middle", size: 11 });
  };
  const numbers = screen.address.numbers && cell >= 34;
  const row = { ...grid, y: grid.y + cell * query, height: cell };
  const column = { ...grid, x: grid.x + cell * key, width: cell };
  return picture(grid.x + grid.width + grid.y * 0.75, grid.y + grid.height + 8, colors.paper, 12.5, [
    row_labels,
    column_labels,
    image(grid, heat_image(weights, colors)),
    numbers ? weights.map((one, i) => one.map((weight, j) => number(weight, i, j))) : [],
    rect(grid, { stroke: colors.line, click }),
    query >= 0 ? rect(row, { stroke: colors.roles.query, thick: 2 }) : [],
    key >= 0 ? rect(column, { stroke: colors.roles.key, thick: 2 }) : [],
  ]);
}
