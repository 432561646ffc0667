// One head large as lines from each query to its keys, as wide as their weight; and the keys of one query as bars.
import { nothing, svg, type TemplateResult } from "lit-html";
import { css, heat, mixed, type Rgb } from "../colors";
import { scale_of } from "../grid";
import { chosen_of, type Drawn, part_of, picked_by, row_of, shade, short, width_of } from "./map";
import type { HeadLines } from "./several";
import { largest, number_text, signed_text } from "../numbers";
import { picture, rect, text } from "../shapes";

const kRow = 24; // pixels
const kMostLines = 1500;

interface Line {
  i: number;
  j: number;
  weight: number;
}

// The heaviest lines; those of the chosen queries nearly whatever they weigh.
function heaviest(weights: number[][], chosen: readonly number[], scale: number): Line[] {
  const all = weights.flatMap((row, i) => row.map((weight, j) => ({ i, j, weight })));
  const seen = all.filter(({ i, weight }) => Math.abs(weight) > (chosen.includes(i) ? 0.002 : 0.03) * scale);
  return seen.sort((a, b) => Math.abs(a.weight) - Math.abs(b.weight)).slice(-kMostLines);
}

export function lines_picture(drawn: Drawn): TemplateResult {
  const { weights, queries, keys, query, key, screen } = drawn;
  const { colors } = screen;
  const all_chosen = chosen_of(drawn);
  const left = width_of([...queries, "queries"]) + 14;
  const right = left + (screen.narrow ? 80 : 240);
  const width = right + width_of([...keys, "keys"]) + 22;
  const y = (i: number): number => 34 + kRow * (i + 0.5);
  const row = row_of(drawn);

  const several = drawn.lines && drawn.lines.length > 1 ? drawn.lines : null;
  const scale = Math.max(...(several ?? [drawn]).map((one) => scale_of(one.weights)));
  const line = (of: HeadLines | null, at: number) => ({ i, j, weight }: Line): TemplateResult => {
    const chosen = query < 0 || all_chosen.includes(i);
    const middle = (left + right) / 2;
    const beside = several ? 3 * (at - (several.length - 1) / 2) : 0; // lines of several heads lie side by side
    const [from, to] = [y(i) + beside, y(j) + beside];
    const path = `M${left} ${from}C${middle} ${from} ${middle} ${to} ${right} ${to}`;
    const own: Rgb = of ? of.color : drawn.most === undefined ? colors.roles.weight : weight < 0 ? colors.less : colors.more;
    const part = several ? Math.min(1, weight / scale) : part_of(drawn, weight);
    const opacity = (of?.faded ? 0.15 : 1) * (chosen ? 0.2 + 0.8 * part : 0.12 + 0.2 * part);
    const said = `head ${of?.id}: ${queries[i]}, ${keys[j]}${screen.address.numbers ? `, ${number_text(weight)}` : ""}`;
    return svg`<path d=${path} fill="none" stroke=${css(chosen || of ? own : colors.strong)} stroke-opacity=${opacity}
      stroke-width=${0.8 + (several ? 4 : 7) * part}
      stroke-linecap="round" @pointerenter=${of ? () => of.point(true) : nothing} @pointerleave=${of ? () => of.point(false) : nothing}>${of ? svg`<title>${said}</title>` : nothing}</path>`;
  };
  const label_of_query = (label: string, i: number): TemplateResult[] => {
    const chosen = all_chosen.includes(i);
    const fill = chosen ? mixed(colors.paper, colors.roles.query, 0.16) : undefined;
    return [
      rect({ x: 2, y: y(i) - 11, width: left - 6, height: 22 }, { fill, round: 6 }),
      text(left - 10, y(i) + 5, short(label), {
        fill: chosen ? colors.ink : colors.faint,
        bold: chosen,
        anchor: "end",
      }),
      rect({ x: 0, y: y(i) - kRow / 2, width: left, height: kRow }, { click: (event) => drawn.pick(i, key, picked_by(event, screen)) }),
    ];
  };
  const label_of_key = (label: string, j: number): TemplateResult[] => {
    const own = drawn.most === undefined ? colors.roles.weight : shade(drawn, row?.[j] ?? 0);
    const fill = row ? mixed(colors.paper, own, 0.45 * part_of(drawn, row[j] ?? 0)) : undefined;
    return [
      rect({ x: right + 4, y: y(j) - 11, width: width - right - 8, height: 22 }, { fill, round: 6 }),
      text(right + 10, y(j) + 5, short(label), { fill: row || j === key ? colors.ink : colors.faint, bold: j === key }),
      rect({ x: right, y: y(j) - kRow / 2, width: width - right, height: kRow }, { click: () => drawn.pick(query, j) }),
    ];
  };
  const bottom = kRow * Math.max(queries.length, keys.length) + 40;
  return picture(width, bottom + (several ? 24 : 0), colors.paper, 13.5, [
    several?.map((one, at) => text(8 + 44 * at, bottom + 14, one.id, { fill: one.color, bold: true })) ?? [],
    text(left - 10, 18, "queries", { fill: colors.roles.query, bold: true, anchor: "end" }),
    text(right + 10, 18, "keys", { fill: colors.roles.key, bold: true }),
    several
      ? several.map((one, at) => heaviest(one.weights, all_chosen, scale).map(line(one, at)))
      : heaviest(weights, all_chosen, drawn.most ?? scale).map(line(null, 0)),
    queries.map(label_of_query),
    keys.map(label_of_key),
  ]);
}

export function row_picture(drawn: Drawn): TemplateResult {
  const { queries, keys, screen, key } = drawn;
  const { colors } = screen;
  const query = Math.max(0, drawn.query);
  const row = row_of({ ...drawn, query }) ?? [];
  const names = chosen_of({ ...drawn, query }).map((i) => short(queries[i] ?? ""));
  const title = names.length > 1 ? `sum of ${names.join(" + ")}` : `what ${names[0] ?? ""} attends to`;
  const left = width_of(keys) + 8;
  const across = screen.narrow ? 110 : 380;
  const width = left + across + 76;
  const most = Math.max(largest(row), 1e-9);
  const said = (weight: number): string =>
    drawn.most === undefined ? number_text(weight) : signed_text(number_text(weight), weight);
  const bar = (weight: number, j: number): TemplateResult[] => {
    const y = 36 + kRow * j;
    const size = Math.max(1, Number.isFinite(weight) ? (Math.abs(weight) / most) * across : 0);
    const stroke = j === key ? colors.ink : colors.roles.weight;
    const label = { fill: j === key ? colors.ink : colors.faint, bold: j === key, anchor: "end" } as const;
    return [
      text(left - 10, y + 16, short(keys[j] ?? ""), label),
      rect(
        { x: left, y: y + 3, width: size, height: kRow - 6 },
        { fill: drawn.most === undefined ? heat(colors, 0.15 + 0.5 * weight) : shade(drawn, weight), stroke, round: 3 },
      ),
      ...(screen.address.numbers ? [text(left + size + 8, y + 16, said(weight), { fill: colors.ink })] : []),
      rect({ x: 0, y, width, height: kRow }, { click: () => drawn.pick(query, j) }),
    ];
  };
  return picture(width, 44 + kRow * keys.length, colors.paper, 13.5, [
    text(8, 20, title + (drawn.most === undefined ? "" : ", less the other run"), { fill: colors.roles.query, bold: true }),
    row.map(bar),
  ]);
}
