// One head large: as a map, as lines or as the bars of one row, with what it does in words.
import { html, nothing, type TemplateResult } from "lit-html";
import { kShows, type Show } from "./address";
import { type Sequence } from "./explanation";
import { lines_picture, row_picture } from "./lines";
import { type Drawn, map_picture, short } from "./map";
import { moved } from "./matrices";
import { number_text, share_text } from "./numbers";
import { type Table, table_of } from "./save";
import type { Screen } from "./screen";
import { group_with, groups_of, join_weights } from "./words";

const kNames: Record<Show, string> = { map: "Map", lines: "Lines", row: "One row" };
const kDrawn: Record<Show, (drawn: Drawn) => TemplateResult> = {
  map: map_picture,
  lines: lines_picture,
  row: row_picture,
};

export interface LargeHead {
  body: TemplateResult;
  picture: TemplateResult;
  table: Table;
}

export const picture_of = (drawn: Drawn): TemplateResult => kDrawn[drawn.screen.address.show](drawn);

export const show_choice = (screen: Screen): TemplateResult =>
  html`<div class="choices" role="group" aria-label="How it is drawn">
    ${kShows.map(
      (show) =>
        html`<button class="plain" aria-pressed=${show === screen.address.show} @click=${() => screen.go({ show })}>
          ${kNames[show]}
        </button>`,
    )}
  </div>`;

// The picture, in which arrow keys choose.
export function framed(drawn: Drawn, picture: TemplateResult, title: string): TemplateResult {
  const on_key = (event: KeyboardEvent): void => {
    const at: [number, number] = [Math.max(0, drawn.query), Math.max(0, drawn.key)];
    const next =
      event.ctrlKey || event.altKey || event.metaKey
        ? null
        : moved(event.key, at, drawn.queries.length, drawn.keys.length);
    if (!next) return;
    event.preventDefault();
    const [query, key] = drawn.query < 0 ? at : next;
    drawn.pick(query, key);
  };
  const label = `${title}: ${drawn.queries.length} rows, ${drawn.keys.length} columns; arrow keys choose one of each`;
  return html`<div class="scroll large" role="application" tabindex="0" aria-label=${label} @keydown=${on_key}>
    ${picture}
  </div>`;
}

// The heaviest keys of a query, in words.
export function sentence(drawn: Drawn): TemplateResult | typeof nothing {
  const { weights, queries, keys, query, key } = drawn;
  const row = weights[query];
  if (!row) return html`<p class="said-of-head hint">Choose a row to read what it attends to.</p>`;
  const best = row
    .map((weight, j) => ({ weight, j }))
    .filter(({ weight }) => weight > 0)
    .sort((a, b) => b.weight - a.weight)
    .slice(0, 3);
  const one = ({ weight, j }: { weight: number; j: number }): TemplateResult =>
    html`<bdi class="role-key said">${keys[j]}</bdi> (${share_text(weight)})`;
  return html`<p class="said-of-head" aria-live="polite">
    <bdi class="role-query said">${queries[query]}</bdi> attends most to
    ${best.map((entry, i) => html`${i === 0 ? nothing : i === 1 ? ", then to " : ", "}${one(entry)}`)}.
    ${key >= 0
      ? html`Its weight to <bdi class="role-key said">${keys[key]}</bdi> is
          <strong class="weight-of-cell">${number_text(row[key] ?? NaN)}</strong>.`
      : nothing}
  </p>`;
}

export function large_head(
  weights: number[][],
  queries: Sequence,
  keys: Sequence,
  title: string,
  screen: Screen,
): LargeHead {
  const { address } = screen;
  const joinable = [queries, keys].some((one) => groups_of(one, true).length < one.tokens.length);
  const joined = address.words && joinable;
  const rows = groups_of(queries, joined),
    columns = groups_of(keys, joined);
  const first = (groups: typeof rows, at: number): number => groups[at]?.tokens[0] ?? -1;
  const drawn: Drawn = {
    weights: join_weights(weights, rows, columns),
    queries: rows.map((group) => group.label),
    keys: columns.map((group) => group.label),
    query: group_with(rows, address.token),
    key: group_with(columns, address.key),
    pick: (query, key) => screen.go({ token: first(rows, query), key: first(columns, key) }),
    room: 620,
    screen,
  };
  const picture = picture_of(drawn);
  const body = html` <div class="bar-of-tools">
      ${show_choice(screen)}
      <label
        >Query
        <select @change=${(event: Event) => screen.go({ token: Number((event.target as HTMLSelectElement).value) })}>
          <option value="-1" ?selected=${drawn.query < 0}>all</option>
          ${rows.map(
            (group, i) =>
              html`<option value=${first(rows, i)} ?selected=${i === drawn.query}>
                ${i + 1}: ${short(group.label)}
              </option>`,
          )}
        </select></label
      >
      ${joinable
        ? html`<label class="check"
            ><input
              type="checkbox"
              .checked=${address.words}
              @change=${(event: Event) => screen.go({ words: (event.target as HTMLInputElement).checked })}
            />Words joined</label
          >`
        : nothing}
    </div>
    ${sentence(drawn)} ${framed(drawn, picture, title)}`;
  return {
    body,
    picture,
    table: table_of(
      title,
      drawn.queries,
      drawn.keys,
      rows.length,
      columns.length,
      (r, c) => drawn.weights[r]?.[c] ?? NaN,
    ),
  };
}
