// Attention over long inputs: the map of a head, and what was kept of one query exactly.
import { html, nothing, type TemplateResult } from "lit-html";
import type { KeptRow, MapHead, MapLevel, Maps } from "./explanation";
import { heat_image } from "./grid";
import "./map_canvas"; // <qkv-map>
import type { MapCanvas } from "./map_canvas";
import { number_text, whole } from "./numbers";
import { means_of } from "./pyramid";
import { integers_in, numbers_in } from "./read_maps";
import { type Table, table_of } from "./save";
import type { Screen, Shown } from "./screen";
import { image, picture, rect, text } from "./shapes";

const kSaved = 256; // cells of a saved picture, at most
const kBars = 512; // parts of a drawn row, at most

const id_of = ({ batch, head }: MapHead): string => `${batch}.${head}`;
const name_of = (head: MapHead, maps: Maps): string =>
  maps.heads.some(({ batch }) => batch > 0) ? `batch ${head.batch}, head ${head.head}` : `head ${head.head}`;

// What of the weights is there.
function kept_text(maps: Maps): string {
  const { rows, columns } = maps.heads[0]?.levels[0] as MapLevel;
  const all = whole(maps.queries * maps.keys);
  if (maps.whole) return `Every one of the ${all} weights of each head is kept.`;
  const block = `${Math.ceil(maps.queries / rows)} x ${Math.ceil(maps.keys / columns)}`;
  const kept = maps.heads.filter(({ top }) => top);
  const exact =
    kept.length === 0
      ? "No single weight is kept (--keep BATCH.HEAD keeps the strongest keys of a head)."
      : `Exact are only, of ${kept.map((head) => name_of(head, maps)).join(", ")}: ${kept[0]?.top?.count} keys of each query` +
        `, the strongest, and ${kept[0]?.rows.length ?? 0} whole rows.`;
  return `Of the ${all} weights of a head the file holds ${whole(rows)} x ${whole(columns)} means over blocks of up to ${block}. ${exact} All other weights are left out.`;
}

// The largest of parts of a row, as bars.
function row_picture(row: KeptRow, maps: Maps, screen: Screen): TemplateResult {
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
function strongest(head: MapHead, maps: Maps, query: number): Strong[] | null {
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

function query_card(head: MapHead, maps: Maps, screen: Screen): TemplateResult {
  const query = Math.min(screen.address.token, maps.queries - 1);
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
  const rows = maps.whole ? [] : head.rows;
  return html`<section class="card">
    <h2>One query</h2>
    <div class="bar-of-tools">
      ${choice}
      ${rows.map(
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
                  <th scope="row">key ${key}</th>
                  <td>${number_text(weight)}</td>
                </tr>`,
            )}
          </tbody>
        </table>`
      : nothing}
  </section>`;
}

// The finest level that a picture has room for.
const level_to_save = (head: MapHead): MapLevel =>
  head.levels.find(({ rows, columns }) => Math.max(rows, columns) <= kSaved) ?? (head.levels.at(-1) as MapLevel);

const means = new WeakMap<MapLevel, number[][]>();

function saved_means(head: MapHead, maps: Maps): number[][] {
  const level = level_to_save(head);
  const before = means.get(level);
  if (before) return before;
  const now = means_of(level, maps.tile);
  means.set(level, now);
  return now;
}

function saved_picture(head: MapHead, maps: Maps, screen: Screen): TemplateResult {
  const shares = saved_means(head, maps).map((row) => row.map((mean) => mean / (level_to_save(head).largest || 1)));
  const { colors } = screen;
  return picture(560, 590, colors.paper, 12, [
    text(24, 22, `${maps.title}: ${name_of(head, maps)}`, { fill: colors.ink, bold: true, size: 14 }),
    image({ x: 24, y: 36, width: 512, height: 512 }, heat_image(shares, colors)),
    text(24, 568, `${maps.queries} queries downwards, ${maps.keys} keys across; darkest: mean ${number_text(level_to_save(head).largest)}`, {
      fill: colors.faint,
    }),
  ]);
}

function saved_tables(head: MapHead, maps: Maps): Table[] {
  const numbers = (count: number): string[] => Array.from({ length: count }, (_, i) => String(i));
  const name = name_of(head, maps);
  const rows = head.rows.map((row) => [...numbers_in(row.weights, maps.dtype)]);
  if (rows.length > 0) {
    const names = head.rows.map(({ query }) => String(query));
    const at = (r: number, c: number): number => rows[r]?.[c] ?? NaN;
    return [table_of(`weights, ${name}`, names, numbers(maps.keys), rows.length, maps.keys, at)];
  }
  const all = saved_means(head, maps);
  const [height, width] = [all.length, all[0]?.length ?? 0];
  return [table_of(`means, ${name}`, numbers(height), numbers(width), height, width, (r, c) => all[r]?.[c] ?? NaN)];
}

export function maps_view(maps: Maps, screen: Screen): Shown {
  const head = maps.heads.find((one) => id_of(one) === screen.address.head) ?? (maps.heads[0] as MapHead);
  const canvas = (): MapCanvas => document.querySelector("qkv-map") as MapCanvas;
  const button = (name: string, sign: string, act: () => void): TemplateResult =>
    html`<button class="plain" aria-label=${name} title=${name} @click=${act}>${sign}</button>`;
  const body = html`<p class="about">${kept_text(maps)}</p>
    <div class="split maps">
      <section class="card">
        <div class="bar-of-tools">
          <label
            >Head
            <select @change=${(event: Event) => screen.go({ head: (event.target as HTMLSelectElement).value })}>
              ${maps.heads.map(
                (one) =>
                  html`<option value=${id_of(one)} ?selected=${one === head}>
                    ${name_of(one, maps)}${one.top ? ", kept" : ""}
                  </option>`,
              )}
            </select></label
          >
          <span class="choices">
            ${button("Enlarge", "+", () => canvas().enlarge(1.5))}
            ${button("Make smaller", "\u2212", () => canvas().enlarge(1 / 1.5))}
            ${button("Show all", "All", () => canvas().whole())}
          </span>
        </div>
        <qkv-map .view=${{ maps, head, screen, query: screen.address.token }}></qkv-map>
      </section>
      ${query_card(head, maps, screen)}
    </div>`;
  return {
    body,
    name: `map-${head.batch}-${head.head}`,
    costs: maps.cost ? [{ name: "", cost: maps.cost }] : [],
    tables: () => saved_tables(head, maps),
    picture: () => saved_picture(head, maps, screen),
    command: (report) => report,
  };
}
