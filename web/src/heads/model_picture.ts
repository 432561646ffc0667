// The map of a model: its sublayers in the order of computation, and in each attention its heads. Boxes are links.
import { svg, type TemplateResult } from "lit-html";
import { type Address, format_address } from "../address";
import { css, mixed, type Rgb } from "../colors";
import type { Attention, HeadEntry, Heads, Sequence, Sublayer } from "../explanation";
import { heat_image } from "../grid";
import { type Hidden, hidden_of, is_left_out } from "./hidden";
import { short } from "./map";
import { share_text } from "../numbers";
import { coarse_of } from "../maps/maps";
import type { Screen } from "../screen";
import { type Box, image, picture, rect, text } from "../shapes";

const kWidth = 292; // of a column, in pixels
const kGap = 60; // between the two
const kMargin = 4;
const kRow = 30; // of a sublayer
const kMap = 42; // of a head
const kAcross = 5; // heads in a line
const kMostCells = 64; // of a head's map, each way

const kParts: Record<string, string> = {
  embedding: "Embedding",
  positions: "Positions added",
  attention: "Attention",
  feed_forward: "Feed-forward",
  norm: "Norm",
  recurrent: "Recurrent states",
};

// A layer that does not begin with its norm adds before each.
export function name_of_part({ part, layer, sequence }: Sublayer, heads: Heads): string {
  const first = heads.sublayers.find((one) => one.layer === layer && one.sequence === sequence);
  return part === "norm" && layer !== null && first?.part !== "norm" ? "Add and norm" : (kParts[part] ?? part);
}

// A box of a column. An attention that passes its sublayer on by no name of its own has none.
interface Stop {
  sublayer: Sublayer | null;
  attention: Attention | null;
  layer: number | null;
}

interface Column {
  title: string;
  tokens: Sequence;
  stops: Stop[];
}

// Sublayers by what they compute on; an attention belongs to its queries.
export function columns_of(heads: Heads): Column[] {
  const columns: Column[] = [];
  const column_of = (tokens: Sequence): Column => {
    const known = columns.find((one) => one.tokens === tokens);
    if (known) return known;
    const made = { title: "", tokens, stops: [] };
    columns.push(made);
    return made;
  };
  for (const sublayer of heads.sublayers) {
    const attention = heads.attentions.find((one) => one.name === sublayer.attention) ?? null;
    column_of(sublayer.sequence).stops.push({ sublayer, attention, layer: sublayer.layer });
  }
  for (const attention of heads.attentions) {
    if (columns.some(({ stops }) => stops.some((stop) => stop.attention === attention))) continue;
    const own = columns.find(({ tokens }) => tokens === attention.queries) ?? columns.at(-1);
    const { stops } = own ?? column_of(attention.queries);
    for (let layer = 0; layer < attention.layers; ++layer) stops.push({ sublayer: null, attention, layer });
  }
  columns.forEach((one, i) => (one.title = columns.length === 1 ? "Encoder" : i === 0 ? "Encoder" : "Decoder"));
  return columns;
}

interface Drawing {
  heads: Heads;
  hidden: Map<Attention, Hidden>;
  screen: Screen;
}

const rows_of = (heads: number): number => Math.ceil(heads / kAcross);
const height_of = (stop: Stop): number =>
  stop.attention ? kRow + 6 + rows_of(stop.attention.heads) * (kMap + 20) : kRow;

const link = (patch: Partial<Address>, label: string, screen: Screen, parts: unknown): TemplateResult =>
  svg`<a href=${format_address({ ...screen.address, ...patch })} aria-label=${label}>${parts}</a>`;

function head_map(entry: HeadEntry, attention: Attention, box: Box, drawing: Drawing): TemplateResult {
  const { screen, heads } = drawing;
  const { colors } = screen;
  const id = `${entry.layer}.${entry.head}`;
  const hidden = drawing.hidden.get(attention) as Hidden;
  const hides = hidden.rules.length > 0 ? (i: number, j: number) => hidden.rule_of(i, j) > 0 : null;
  const out = is_left_out(heads, attention.name, entry.layer, entry.head);
  const map = entry.weights ?? (entry.map && coarse_of(entry.map));
  const label = `${attention.title || "Attention"}, head ${id}${out ? ", left out" : ""}`;
  return link({ view: "heads", attention: attention.name, head: id, cell: "", also: "" }, label, screen, [
    map && !out
      ? image(box, heat_image(map, colors, kMostCells, entry.weights && hides, attention.keys.tokens.length))
      : rect(box, { fill: mixed(colors.paper, colors.roles.weight, out ? 0 : 0.25) }),
    rect(box, { stroke: colors.line }),
    text(box.x + box.width / 2, box.y + box.height + 13, out ? `${id} out` : id, {
      fill: colors.ink,
      anchor: "middle",
      size: 11,
    }),
  ]);
}

function drawn_stop(stop: Stop, x: number, y: number, drawing: Drawing): unknown[] {
  const { screen } = drawing;
  const { colors, address } = screen;
  const { sublayer, attention, layer } = stop;
  const box = { x, y, width: kWidth, height: height_of(stop) };
  const role: Rgb = attention ? colors.roles.weight : sublayer?.part === "feed_forward" ? colors.roles.value : colors.roles.none;
  const chosen = sublayer !== null && sublayer.name === address.cell;
  const name = attention ? attention.title || "Attention" : sublayer ? name_of_part(sublayer, drawing.heads) : "";
  const shape = sublayer && `${sublayer.lengths.length} x ${sublayer.size}`;
  const frame = rect(box, {
    fill: mixed(colors.paper, role, chosen ? 0.3 : 0.1),
    stroke: chosen ? colors.ink : role,
    thick: chosen ? 2.5 : 1,
    round: 7,
  });
  const words = [
    text(x + 10, y + 20, name, { fill: colors.ink, bold: attention !== null, size: 12 }),
    shape ? text(x + kWidth - 10, y + 20, shape, { fill: colors.ink, anchor: "end" }) : [],
  ];
  const entries = attention?.all.filter((one) => one.layer === layer) ?? [];
  return [
    sublayer ? link({ cell: sublayer.name }, `${name}, ${shape}: lengths`, screen, [frame, words]) : [frame, words],
    entries.map((entry, i) => {
      const across = x + 10 + (i % kAcross) * (kMap + 10);
      const down = y + kRow + Math.floor(i / kAcross) * (kMap + 20);
      return head_map(entry, attention as Attention, { x: across, y: down, width: kMap, height: kMap }, drawing);
    }),
  ];
}

interface Placed {
  parts: unknown[];
  bottom: number;
  memory: number[]; // where keys and values of another column come in
}

function drawn_column(column: Column, x: number, from: number, drawing: Drawing): Placed {
  const { colors } = drawing.screen;
  const parts: unknown[] = [
    text(x, from + 16, column.title, { fill: colors.ink, bold: true, size: 15 }),
    text(x + kWidth, from + 16, `${column.tokens.tokens.length} tokens`, { fill: colors.faint, anchor: "end" }),
  ];
  const memory: number[] = [];
  let y = from + 28;
  let layer: number | null = null;
  for (const stop of column.stops) {
    if (stop.layer !== null && stop.layer !== layer) {
      parts.push(text(x, y + 16, `Layer ${stop.layer}`, { fill: colors.faint, bold: true }));
      y += 24;
    }
    layer = stop.layer;
    const { attention } = stop;
    if (attention && attention.keys !== attention.queries) memory.push(y + 15);
    parts.push(drawn_stop(stop, x, y, drawing));
    y += height_of(stop) + 8;
  }
  return { parts, bottom: y, memory };
}

// From the end of the encoder to each attention that reads it.
function memory_lines(encoder: number, decoder: Placed, screen: Screen): unknown[] {
  const { colors } = screen;
  const [from, to] = [kMargin + kWidth, kMargin + kWidth + kGap];
  const line = (path: string): TemplateResult =>
    svg`<path d=${path} fill="none" stroke=${css(colors.roles.key)} stroke-width="2"></path>`;
  const trunk = from + kGap / 2;
  const last = decoder.memory.at(-1) ?? encoder;
  const arrows = decoder.memory.map((y) => [
    line(`M${trunk} ${y}H${to - 8}`),
    svg`<path d=${`M${to - 2} ${y}l-9 -5v10z`} fill=${css(colors.roles.key)}></path>`,
  ]);
  const first = Math.min(encoder, ...decoder.memory);
  return [line(`M${from} ${encoder}H${trunk}`), line(`M${trunk} ${first}V${Math.max(encoder, last)}`), arrows];
}

// What follows the last layer where a model writes: the projection to its vocabulary, softmax, and the word that came of it.
function drawn_end(heads: Heads, x: number, y: number, { screen }: Drawing): { parts: unknown[]; bottom: number } {
  const { colors, address } = screen;
  const written = heads.translation?.written ?? [];
  const first = heads.translation?.continues ? written.length - 1 : 0;
  const token = Math.max(0, Math.min(written.length - 1, address.token < 0 ? first : address.token));
  const now = written[token];
  if (!now) return { parts: [], bottom: y };
  const said = `${short(now.token)}${address.numbers ? `, ${share_text(now.probability)}` : ""}`;
  const boxes: [string, string, Rgb][] = [
    ["Output projection", "a score for each token", colors.roles.score],
    ["Softmax", "scores become probabilities", colors.roles.weight],
    [`Token ${token + 1}: ${said}`, "", colors.roles.output],
  ];
  const parts = boxes.map(([name, about, role], i) => {
    const box = { x, y: y + i * (kRow + 8), width: kWidth, height: kRow };
    return [
      rect(box, { fill: mixed(colors.paper, role, 0.1), stroke: role, round: 7 }),
      text(x + 10, box.y + 20, name, { fill: colors.ink, bold: about === "" }),
      about ? text(x + kWidth - 10, box.y + 20, about, { fill: colors.faint, anchor: "end", size: 11 }) : [],
    ];
  });
  const to = link({ view: "translation", token, cell: "" }, `What was written: ${said}`, screen, parts.at(-1));
  return { parts: [...parts.slice(0, -1), to], bottom: y + boxes.length * (kRow + 8) };
}

// One column, or two side by side; on a narrow screen one below the other.
export function model_picture(heads: Heads, screen: Screen): TemplateResult {
  const drawing = { heads, screen, hidden: new Map(heads.attentions.map((one) => [one, hidden_of(heads, one)])) };
  const [first, ...others] = columns_of(heads);
  if (!first) return picture(kWidth, 40, screen.colors.paper, 12.5, []);
  const ended = (placed: Placed, x: number, last: boolean): Placed => {
    if (!last) return placed;
    const end = drawn_end(heads, x, placed.bottom, drawing);
    return { ...placed, parts: [...placed.parts, end.parts], bottom: end.bottom };
  };
  const left = ended(drawn_column(first, kMargin, kMargin, drawing), kMargin, others.length === 0);
  const beside = !screen.narrow;
  let bottom = left.bottom;
  const parts: unknown[] = [];
  others.forEach((column, i) => {
    const x = beside ? kMargin + (i + 1) * (kWidth + kGap) : kMargin;
    const drawn = drawn_column(column, x, beside ? kMargin : bottom + 14, drawing);
    const placed = ended(drawn, x, i === others.length - 1);
    if (beside && i === 0 && placed.memory.length > 0) parts.push(memory_lines(left.bottom - 8 - kRow / 2, placed, screen));
    parts.push(placed.parts);
    bottom = Math.max(bottom, placed.bottom);
  });
  const width = 2 * kMargin + kWidth + (beside ? others.length * (kWidth + kGap) : 0);
  return picture(width, bottom + 4, screen.colors.paper, 12.5, [left.parts, parts]);
}
