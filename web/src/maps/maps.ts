// Attention over long inputs, of arrays or in a model: the map of a head, and what was kept of one query exactly.
import { html, nothing, type TemplateResult } from "lit-html";
import type { Attention, HeadMap, KeptRow, MapHead, MapLevel, Mapped, Maps, OwnMap } from "../explanation";
import { heat_image } from "../grid";
import type { LargeHead } from "../heads/large_head";
import "./map_canvas"; // <qkv-map>
import type { Labels, MapCanvas } from "./map_canvas";
import { number_text, whole } from "../numbers";
import { level_scale, means_of } from "./pyramid";
import { integers_in, numbers_in } from "../read/read_maps";
import { type Table, table_of } from "../save";
import type { Screen, Shown } from "../screen";
import { image, picture, rect, text } from "../shapes";

const kSaved = 256; // cells of a saved picture, at most
const kBars = 512; // parts of a drawn row, at most

const id_of = ({ batch, head }: MapHead): string => `${batch}.${head}`;
const name_of = (head: MapHead, maps: Maps): string =>
  maps.heads.some(({ batch }) => batch > 0) ? `batch ${head.batch}, head ${head.head}` : `head ${head.head}`;

// What of the weights is there; `keep`: how to keep more of them, `kept` the heads of which there is more.
function kept_text({ levels }: HeadMap, { queries, keys }: Mapped, kept: { name: string; map: HeadMap }[], keep: string): string {
  const { rows, columns } = levels[0] as MapLevel;
  const block = `${Math.ceil(queries / rows)} x ${Math.ceil(keys / columns)}`;
  const exact_rows = kept[0]?.map.rows.length ?? 0;
  const exact = kept[0]
    ? `Of ${kept.map(({ name }) => name).join(", ")} it also holds the exact weights of each query's ${kept[0].map.top?.count} strongest keys` +
      `${exact_rows === 0 ? "" : ` and of ${exact_rows} whole row${exact_rows === 1 ? "" : "s"}`}.`
    : `It holds no single weight exactly (--keep ${keep} keeps the strongest keys of a head).`;
  return `A head has ${whole(queries * keys)} weights; this file holds ${whole(rows)} x ${whole(columns)} means over blocks of up to ${block}. ${exact} All other weights are left out.`;
}

// The largest of parts of a row, as bars.
function row_picture(row: KeptRow, maps: Mapped, screen: Screen): TemplateResult {
  const { colors } = screen;
  const weights = numbers_in(row.weights, maps.dtype);
  const parts = Math.min(kBars, weights.length);
  let largest = 0;
  for (const weight of weights) if (weight > largest) largest = weight;
  const bars = Array.from({ length: parts }, (_, i) => {
    let most = 0;
    const end = Math.ceil(((i + 1) * weights.length) / parts);
    for (let j = Math.ceil((i * weights.length) / parts); j < end; ++j) most = Math.max(most, weights[j] ?? 0);
    const height = (100 * most) / (largest || 1);
    return rect(
      { x: (512 / parts) * i, y: 110 - height, width: 512 / parts, height },
      { fill: colors.roles.weight },
    );
  });
  const label = { fill: colors.faint, size: 11 };
  return picture(512, 128, colors.paper, 12, [
    bars,
    rect({ x: 0, y: 110, width: 512, height: 1 }, { fill: colors.strong }),
    text(0, 124, "key 0", label),
    text(512, 124, `key ${maps.keys - 1}`, { ...label, anchor: "end" }),
    screen.address.numbers ? text(512, 10, `largest ${number_text(largest)}`, { ...label, anchor: "end" }) : [],
  ]);
}

interface Strong {
  key: number;
  weight: number;
}

// The strongest keys of a query, of a row where all are kept.
function strongest(head: HeadMap, maps: Mapped, query: number): Strong[] | null {
  const row = head.rows.find((one) => one.query === query);
  if (head.top) {
    const { count } = head.top;
    const [keys, weights] = [integers_in(head.top.keys), numbers_in(head.top.weights, maps.dtype)];
    return Array.from({ length: count }, (_, i) => ({
      key: keys[query * count + i] as number,
      weight: weights[query * count + i] as number,
    })).filter(({ key }) => key >= 0);
  }
  if (!row) return null;
  return [...numbers_in(row.weights, maps.dtype)]
    .map((weight, key) => ({ key, weight }))
    .sort((a, b) => b.weight - a.weight)
    .slice(0, 32);
}

// What is kept of one query; `labels` name queries and keys that are tokens.
function query_part(head: HeadMap, maps: Mapped, labels: Labels | null, screen: Screen): TemplateResult {
  const query = Math.min(screen.address.token, maps.queries - 1);
  const label = (names: string[] | undefined, at: number): TemplateResult | typeof nothing =>
    names ? html` <bdi class="token">${names[at]}</bdi>` : nothing;
  const choice = html`<label
    >Query
    <input
      class="plain"
      type="number"
      min="0"
      max=${maps.queries - 1}
      .value=${query < 0 ? "" : String(query)}
      @change=${(event: Event) => {
        const { value } = event.target as HTMLInputElement;
        screen.go({ token: /^\d+$/.test(value) ? Math.min(Number(value), maps.queries - 1) : -1 });
      }}
  /></label>`;
  const strong = query < 0 ? null : strongest(head, maps, query);
  const row = head.rows.find((one) => one.query === query);
  return html`<div class="bar-of-tools">
      ${choice}${label(labels?.queries, query)}
      ${(head.top ? head.rows : []).map(
        (one) =>
          html`<button
            class="plain"
            aria-pressed=${one.query === query}
            @click=${() => screen.go({ token: one.query })}
          >
            Row ${one.query}
          </button>`,
      )}
    </div>
    ${query < 0
      ? html`<p class="hint">Choose a query by its number, or in the map.</p>`
      : strong
        ? nothing
        : html`<p class="hint">Of this head no weights of query ${query} are kept.</p>`}
    ${row ? html`<div class="small-picture kept-row">${row_picture(row, maps, screen)}</div>` : nothing}
    ${strong
      ? html`<table class="measures">
          <caption>
            The strongest keys of query ${query}, exact
          </caption>
          <tbody>
            ${strong.map(
              ({ key, weight }) =>
                html`<tr>
                  <th scope="row">key ${key}${label(labels?.keys, key)}</th>
                  <td>${number_text(weight)}</td>
                </tr>`,
            )}
          </tbody>
        </table>`
      : nothing}`;
}

// The finest level that a picture has room for.
const level_to_save = (head: HeadMap): MapLevel =>
  head.levels.find(({ rows, columns }) => Math.max(rows, columns) <= kSaved) ?? (head.levels.at(-1) as MapLevel);

const means = new WeakMap<MapLevel, number[][]>();

function means_in(level: MapLevel, tile: number): number[][] {
  const before = means.get(level);
  if (before) return before;
  const now = means_of(level, tile);
  means.set(level, now);
  return now;
}

function saved_picture(head: HeadMap, maps: Mapped, title: string, screen: Screen): TemplateResult {
  const level = level_to_save(head);
  const means = means_in(level, maps.tile);
  const { colors } = screen;
  const tick = { fill: colors.faint, size: 11 };
  const parts = [0, 0.25, 0.5, 0.75, 1];
  const at = (part: number, count: number): string => String(Math.round(part * (count - 1)));
  const scale = number_text(level_scale(level, maps.tile, maps.keys));
  return picture(610, 626, colors.paper, 12, [
    text(64, 22, title, { fill: colors.ink, bold: true, size: 14 }),
    parts.map((part) => text(64 + 512 * part, 44, at(part, maps.keys), { ...tick, anchor: "middle" })),
    parts.map((part) => text(58, 56 + 508 * part, at(part, maps.queries), { ...tick, anchor: "end" })),
    text(4, 44, "queries, keys", tick),
    image({ x: 64, y: 50, width: 512, height: 512 }, heat_image(means, colors, 4096, null, maps.keys)),
    rect({ x: 64, y: 50, width: 512, height: 512 }, { stroke: colors.strong }),
    colors.heat.map((fill, k) => rect({ x: 64 + 40 * k, y: 578, width: 40, height: 12 }, { fill, stroke: colors.line })),
    text(64, 608, "0", tick),
    text(240, 588, `mean weight, drawn by its root, up to ${scale} or more`, tick),
  ]);
}

function saved_table(head: HeadMap, maps: Mapped, name: string): Table {
  const numbers = (count: number): string[] => Array.from({ length: count }, (_, i) => String(i));
  const exact = head.rows.length > 0;
  const rows = exact
    ? head.rows.map((row) => [...numbers_in(row.weights, maps.dtype)])
    : means_in(level_to_save(head), maps.tile);
  const names = exact ? head.rows.map(({ query }) => String(query)) : numbers(rows.length);
  const width = rows[0]?.length ?? 0;
  return table_of(`${exact ? "weights" : "means"}, ${name}`, names, numbers(width), rows.length, width, (r, c) => rows[r]?.[c] ?? NaN);
}

function canvas_of(head: HeadMap, maps: Mapped, labels: Labels | null, screen: Screen, tools: unknown): TemplateResult {
  const canvas = (): MapCanvas => document.querySelector("qkv-map") as MapCanvas;
  const button = (name: string, sign: string, act: () => void): TemplateResult =>
    html`<button class="plain" aria-label=${name} title=${name} @click=${act}>${sign}</button>`;
  return html`<div class="bar-of-tools">
      ${tools}
      <span class="choices">
        ${button("Enlarge", "+", () => canvas().enlarge(1.5))}
        ${button("Make smaller", "\u2212", () => canvas().enlarge(1 / 1.5))}
        ${button("Show all", "All", () => canvas().whole())}
      </span>
    </div>
    <qkv-map .view=${{ maps, head, labels, screen, query: screen.address.token }}></qkv-map>`;
}

const coarsest = (map: HeadMap): MapLevel => map.levels.at(-1) as MapLevel;

// The coarsest means of a head of a model.
export const coarse_of = (map: OwnMap): number[][] => means_in(coarsest(map), map.tile);

// One head of a model that read many tokens.
export function large_map(map: OwnMap, attention: Attention, title: string, screen: Screen): LargeHead {
  const kept = attention.all.flatMap((one) => (one.map?.top ? [{ name: `head ${one.layer}.${one.head}`, map: one.map }] : []));
  const labels = { queries: attention.queries.tokens, keys: attention.keys.tokens };
  return {
    body: html`<p class="about">${kept_text(map, map, kept, "LAYER.HEAD")}</p>
      <div class="own-map">${canvas_of(map, map, labels, screen, nothing)} ${query_part(map, map, labels, screen)}</div>`,
    picture: saved_picture(map, map, title, screen),
    table: saved_table(map, map, title),
  };
}

export function maps_view(maps: Maps, screen: Screen): Shown {
  const head = maps.heads.find((one) => id_of(one) === screen.address.head) ?? (maps.heads[0] as MapHead);
  const kept = maps.heads.flatMap((one) => (one.top ? [{ name: name_of(one, maps), map: one }] : []));
  const choice = html`<label
    >Head
    <select @change=${(event: Event) => screen.go({ head: (event.target as HTMLSelectElement).value })}>
      ${maps.heads.map(
        (one) =>
          html`<option value=${id_of(one)} ?selected=${one === head}>${name_of(one, maps)}${one.top ? ", kept" : ""}</option>`,
      )}
    </select></label
  >`;
  const body = html`<p class="about">
      ${maps.whole
        ? `Every one of the ${whole(maps.queries * maps.keys)} weights of each head is kept.`
        : kept_text(head, maps, kept, "BATCH.HEAD")}
    </p>
    <div class="split maps">
      <section class="card">${canvas_of(head, maps, null, screen, choice)}</section>
      <section class="card">
        <h2>One query</h2>
        ${query_part(head, maps, null, screen)}
      </section>
    </div>`;
  return {
    body,
    name: `map-${head.batch}-${head.head}`,
    costs: maps.cost ? [{ name: "", cost: maps.cost }] : [],
    tables: () => [saved_table(head, maps, name_of(head, maps))],
    picture: () => saved_picture(head, maps, `${maps.title}: ${name_of(head, maps)}`, screen),
    command: (report) => report,
  };
}
