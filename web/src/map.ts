// One head large as a map: a row for each query, a column for each key.
import { nothing, svg, type TemplateResult } from "lit-html";
import { css, heat, readable } from "./colors";
import { heat_image } from "./grid";
import { clamp, number_text } from "./numbers";
import type { Screen } from "./screen";
import { kFont } from "./steps_picture";

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
  Math.min(8 * kLongest, 12 + 7.6 * Math.max(1, ...labels.map((label) => [...label].length)));

// Keeps a label whose letters run from right to left on its side of the map.
export const label_text = (
  x: number,
  y: number,
  end: "start" | "end",
  fill: string,
  text: string,
  weight = 400,
  turn = "",
): TemplateResult =>
  svg`<text x=${x} y=${y} text-anchor=${end} fill=${fill} font-weight=${weight} transform=${turn || nothing} unicode-bidi="plaintext">${short(text)}</text>`;

export function map_picture(drawn: Drawn): TemplateResult {
  const { weights, queries, keys, query, key, screen } = drawn;
  const { colors } = screen;
  const most = Math.max(queries.length, keys.length);
  const cell = clamp(drawn.room / most, most > 64 ? 4 : 18, 44);
  const every = Math.max(1, Math.ceil(14 / cell)); // one label each so many
  const left = width_of(queries),
    top = width_of(keys) * 0.8 + 10;
  const width = left + cell * keys.length + top * 0.75,
    height = top + cell * queries.length + 8;
  const numbers = screen.address.numbers && cell >= 34;
  const click = (event: MouseEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const column = ((event.clientX - box.left) / box.width) * keys.length,
      row = ((event.clientY - box.top) / box.height) * queries.length;
    drawn.pick(clamp(row, 0, queries.length - 1), clamp(column, 0, keys.length - 1));
  };
  const labels = [
    ...queries.map((label, i) =>
      i % every === 0 || i === query
        ? label_text(
            left - 8,
            top + cell * (i + 0.5) + 4,
            "end",
            css(i === query ? colors.ink : colors.faint),
            label,
            i === query ? 700 : 400,
          )
        : nothing,
    ),
    ...keys.map((label, j) => {
      const x = left + cell * (j + 0.5),
        y = top - 7;
      return j % every === 0 || j === key
        ? label_text(
            x,
            y,
            "start",
            css(j === key ? colors.ink : colors.faint),
            label,
            j === key ? 700 : 400,
            `rotate(-50 ${x} ${y})`,
          )
        : nothing;
    }),
  ];
  const texts = numbers
    ? weights.flatMap((row, i) =>
        row.map(
          (weight, j) =>
            svg`<text x=${left + cell * (j + 0.5)} y=${top + cell * (i + 0.5) + 4} text-anchor="middle" font-size="11" fill=${css(readable(colors, heat(colors, weight)))}>${Number.isFinite(weight) ? weight.toFixed(2).replace(/^0/, "") : number_text(weight)}</text>`,
        ),
      )
    : [];
  return svg`<svg width=${width} height=${height} viewBox="0 0 ${width} ${height}" font-family=${kFont} font-size="12.5">
    <rect width=${width} height=${height} fill=${css(colors.paper)}></rect>
    ${labels}
    <image href=${heat_image(weights, colors)} x=${left} y=${top} width=${cell * keys.length} height=${cell * queries.length} preserveAspectRatio="none" image-rendering="pixelated"></image>
    ${texts}
    <rect x=${left} y=${top} width=${cell * keys.length} height=${cell * queries.length} fill="transparent" stroke=${css(colors.line)} @click=${click} class="target"></rect>
    ${query >= 0 ? svg`<rect x=${left} y=${top + cell * query} width=${cell * keys.length} height=${cell} fill="none" stroke=${css(colors.roles.query)} stroke-width="2"></rect>` : nothing}
    ${key >= 0 ? svg`<rect x=${left + cell * key} y=${top} width=${cell} height=${cell * queries.length} fill="none" stroke=${css(colors.roles.key)} stroke-width="2"></rect>` : nothing}
  </svg>`;
}
