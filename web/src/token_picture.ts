// The tables of a token's measures as one picture, to be saved.
import type { TemplateResult } from "lit-html";
import type { Rgb } from "./colors";
import { site_option } from "./command";
import { type Measured, type Token, type TokenMeasure } from "./explanation";
import { short, width_of } from "./heads/map";
import { largest, number_text, signed_text } from "./numbers";
import type { Screen } from "./screen";
import { picture, rect, text } from "./shapes";

const kColumn = 132; // pixels
const kRow = 21;
const kGap = 22;

export const kTokenSaid: Record<TokenMeasure, string> = {
  weight: "weight",
  value_norm: "value norm",
  gradient: "gradient x weight",
  rollout: "rollout",
  knock_out: "knock-out",
};

// Of keys or of heads.
export interface MeasureTable {
  caption: string;
  names: readonly string[];
  measures: readonly Measured[];
  changes: boolean; // they are differences of two runs
}

// Of a model with one attention it has no name.
const site = (attention: string): string => (attention === "attention" ? "" : `${site_option(attention)} `);

export const tables_of = (token: Token): MeasureTable[] => [
  ...(token.words?.measures.length
    ? [{ caption: "Words", names: token.words.all, measures: token.words.measures, changes: false }]
    : []),
  ...token.keys
    .filter((one) => one.measures.length > 0)
    .map((one) => ({ caption: site(one.attention) === "" ? "Keys" : `Keys of ${site(one.attention)}attention`, names: one.tokens, measures: one.measures, changes: false })),
  ...(token.heads.all.length > 0
    ? [
        {
          caption: "Heads",
          names: token.heads.all.map((one) => `${site(one.attention)}${one.layer}.${one.head}`),
          measures: token.heads.measures,
          changes: false,
        },
      ]
    : []),
];

// Each number, and under it a bar as long as its part of the largest; those below 0 in another colour.
function drawn(table: MeasureTable, left: number, top: number, screen: Screen): unknown[] {
  const { colors, address } = screen;
  const most = table.measures.map((one) => largest(one.values) || 1);
  const x = (m: number): number => left + kColumn * m;
  const value = (one: Measured, m: number, i: number): unknown[] => {
    const number = one.values[i] as number;
    const part = Math.min(1, Math.abs(number) / (most[m] as number)) || 0;
    const y = top + 44 + kRow * i;
    const signs = table.changes ? [colors.less, colors.more] : [colors.roles.query, colors.roles.weight];
    const fill = signs[number < 0 ? 0 : 1] as Rgb;
    const shown = table.changes ? signed_text(number_text(number, 4), number) : number_text(number, 4);
    const said = { fill: colors.ink, anchor: "end" } as const;
    return [
      address.numbers ? text(x(m) + kColumn - 14, y, shown, said) : [],
      rect({ x: x(m), y: y + 3, width: part * (kColumn - 14), height: 3 }, { fill }),
    ];
  };
  return [
    text(kGap, top + 16, table.caption, { fill: colors.ink, bold: true, size: 14 }),
    table.measures.map((one, m) =>
      text(x(m) + kColumn - 14, top + 16, kTokenSaid[one.measure], { fill: colors.faint, anchor: "end" }),
    ),
    table.names.map((name, i) =>
      text(left - 12, top + 44 + kRow * i, short(name, 28), { fill: colors.ink, anchor: "end" }),
    ),
    table.measures.map((one, m) => table.names.map((_, i) => value(one, m, i))),
  ];
}

export function token_picture(tables: readonly MeasureTable[], title: string, screen: Screen): TemplateResult {
  const names = tables.flatMap((table) => table.names.map((name) => short(name, 28)));
  const widest = Math.max(120, width_of(names), ...names.map((name) => 7.4 * name.length));
  const left = kGap + widest + 12;
  let top = 46;
  const parts = tables.map((table) => {
    const one = drawn(table, left, top, screen);
    top += 50 + kRow * table.names.length + kGap;
    return one;
  });
  const width = left + kColumn * Math.max(0, ...tables.map(({ measures }) => measures.length)) + kGap;
  return picture(width, top, screen.colors.paper, 12.5, [
    text(kGap, 28, title, { fill: screen.colors.ink, bold: true, size: 16 }),
    parts,
  ]);
}
