// One head large as lines from each query to its keys, as wide as their weight; and the keys of one query as bars.
import { nothing, svg, type TemplateResult } from "lit-html";
import { css, heat, mixed } from "./colors";
import { largest, number_text } from "./numbers";
import { type Drawn, label_text, width_of } from "./map";
import { kFont } from "./steps_picture";

const kRow = 24,
  kMostLines = 1500;

// The heaviest lines; those of the chosen query whatever they weigh.
function heaviest(weights: number[][], query: number): { i: number; j: number; weight: number }[] {
  const all = weights.flatMap((row, i) => row.map((weight, j) => ({ i, j, weight })));
  const seen = all.filter(({ i, weight }) => weight > (i === query ? 0.002 : 0.03));
  return seen.sort((a, b) => a.weight - b.weight).slice(-kMostLines);
}

export function lines_picture(drawn: Drawn): TemplateResult {
  const { weights, queries, keys, query, key, screen } = drawn;
  const { colors } = screen;
  const left = width_of(queries) + 14,
    right = left + (screen.narrow ? 80 : 240);
  const width = right + width_of(keys) + 22,
    height = kRow * Math.max(queries.length, keys.length) + 40;
  const y = (i: number): number => 34 + kRow * (i + 0.5);
  const line = ({ i, j, weight }: { i: number; j: number; weight: number }): TemplateResult => {
    const chosen = query < 0 || i === query;
    const middle = (left + right) / 2;
    const path = `M${left} ${y(i)}C${middle} ${y(i)} ${middle} ${y(j)} ${right} ${y(j)}`;
    return svg`<path d=${path} fill="none" stroke=${css(chosen ? colors.roles.weight : colors.strong)} stroke-opacity=${chosen ? 0.2 + 0.8 * weight : 0.12 + 0.2 * weight} stroke-width=${0.8 + 7 * weight} stroke-linecap="round"></path>`;
  };
  const target = (x: number, i: number, size: number, pick: () => void): TemplateResult =>
    svg`<rect class="target" x=${x} y=${y(i) - kRow / 2} width=${size} height=${kRow} fill="transparent" @click=${pick}></rect>`;
  const row = weights[query];
  return svg`<svg width=${width} height=${height} viewBox="0 0 ${width} ${height}" font-family=${kFont} font-size="13.5">
    <rect width=${width} height=${height} fill=${css(colors.paper)}></rect>
    ${label_text(left - 10, 18, "end", css(colors.roles.query), "queries", 700)}
    ${label_text(right + 10, 18, "start", css(colors.roles.key), "keys", 700)}
    ${heaviest(weights, query).map(line)}
    ${queries.map(
      (
        label,
        i,
      ) => svg`${i === query ? svg`<rect x="2" y=${y(i) - 11} width=${left - 6} height="22" rx="6" fill=${css(mixed(colors.paper, colors.roles.query, 0.16))}></rect>` : nothing}
      ${label_text(left - 10, y(i) + 5, "end", css(i === query ? colors.ink : colors.faint), label, i === query ? 700 : 400)}
      ${target(0, i, left, () => drawn.pick(i, key))}`,
    )}
    ${keys.map(
      (
        label,
        j,
      ) => svg`<rect x=${right + 4} y=${y(j) - 11} width=${width - right - 8} height="22" rx="6" fill=${css(row ? mixed(colors.paper, colors.roles.weight, 0.45 * (row[j] ?? 0)) : colors.paper)}></rect>
      ${label_text(right + 10, y(j) + 5, "start", css(row || j === key ? colors.ink : colors.faint), label, j === key ? 700 : 400)}
      ${target(right, j, width - right, () => drawn.pick(query, j))}`,
    )}
  </svg>`;
}

export function row_picture(drawn: Drawn): TemplateResult {
  const { weights, queries, keys, screen, key } = drawn;
  const { colors } = screen;
  const query = Math.max(0, drawn.query);
  const row = weights[query] ?? [];
  const left = width_of(keys) + 8,
    across = screen.narrow ? 110 : 380,
    width = left + across + 76,
    height = 44 + kRow * keys.length;
  const most = Math.max(largest(row), 1e-9);
  const bar = (weight: number, j: number): TemplateResult => {
    const y = 36 + kRow * j;
    const size = Math.max(1, Number.isFinite(weight) ? (weight / most) * across : 0);
    return svg`${label_text(left - 10, y + 16, "end", css(j === key ? colors.ink : colors.faint), keys[j] ?? "", j === key ? 700 : 400)}
      <rect x=${left} y=${y + 3} width=${size} height=${kRow - 6} rx="3" fill=${css(heat(colors, 0.15 + 0.5 * weight))} stroke=${css(j === key ? colors.ink : colors.roles.weight)}></rect>
      ${screen.address.numbers ? svg`<text x=${left + size + 8} y=${y + 16} fill=${css(colors.ink)}>${number_text(weight)}</text>` : nothing}
      <rect class="target" x="0" y=${y} width=${width} height=${kRow} fill="transparent" @click=${() => drawn.pick(query, j)}></rect>`;
  };
  return svg`<svg width=${width} height=${height} viewBox="0 0 ${width} ${height}" font-family=${kFont} font-size="13.5">
    <rect width=${width} height=${height} fill=${css(colors.paper)}></rect>
    <text x="8" y="20" fill=${css(colors.faint)}>what <tspan fill=${css(colors.roles.query)} font-weight="700" unicode-bidi="isolate">${queries[query]}</tspan> attends to</text>
    ${row.map(bar)}
  </svg>`;
}
