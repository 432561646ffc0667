// One head large: as a map, as lines or as the bars of one row, with what it does in words.
import { html, nothing, type TemplateResult } from "lit-html";
import { kShows, type Show } from "../address";
import { type Sequence } from "../explanation";
import { scale_of } from "../grid";
import { legend } from "../legend";
import { lines_picture, row_picture } from "./lines";
import type { Hidden } from "./hidden";
import type { HeadLines } from "./several";
import { chosen_of, type Drawn, map_picture, type Picked, row_of, short } from "./map";
import { moved } from "../steps/matrices";
import { change_text, number_text, row_sum, share_text, signed_text } from "../numbers";
import { type Table, table_of } from "../save";
import type { Screen } from "../screen";
import { type Group, group_with, groups_of, join_weights } from "./words";

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
    drawn.pick(query, key, event.shiftKey && query !== drawn.query ? "extend" : "alone");
  };
  const label = `${title}: ${drawn.queries.length} rows, ${drawn.keys.length} columns; arrow keys choose one of each, with Shift several rows`;
  return html`<div class="scroll large" role="application" tabindex="0" aria-label=${label} @keydown=${on_key}>
    ${picture}
  </div>`;
}

const names_of = (drawn: Drawn): unknown[] =>
  chosen_of(drawn).map((i, at) => html`${at === 0 ? nothing : " + "}<bdi class="role-query said">${drawn.queries[i]}</bdi>`);

// The keys of a query that gained and lost most, in words.
function change_sentence(drawn: Drawn, row: readonly number[]): TemplateResult {
  const { keys, key, also } = drawn;
  const several = (also ?? []).length > 0;
  const said = (weight: number): string => signed_text(several ? number_text(weight) : share_text(weight), weight);
  const most = row
    .map((weight, j) => ({ weight, j }))
    .filter(({ weight }) => Math.abs(weight) > 0)
    .sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight))
    .slice(0, 3);
  return html`<p class="said-of-head" aria-live="polite">
    ${most.length === 0
      ? html`${names_of(drawn)} ${several ? "together attend" : "attends"} to the same in both runs.`
      : html`Of ${names_of(drawn)} most changed:
          ${most.map(
            ({ weight, j }, i) =>
              html`${i === 0 ? nothing : ", "}<bdi class="role-key said">${keys[j]}</bdi> (<span class="figure">${said(weight)}</span>)`,
          )}.`}
    ${key >= 0
      ? html`${several ? "The sum of their weights" : "Its weight"} to <bdi class="role-key said">${keys[key]}</bdi> changed by
          <strong class="weight-of-cell">${change_text(row[key] ?? NaN, 0)}</strong>.`
      : nothing}
  </p>`;
}

const kLeastSaid = 0.0005; // 0.1 %

// The heaviest keys of a query, in words.
export function sentence(drawn: Drawn, verb = "attends", to = "to"): TemplateResult | typeof nothing {
  const { keys, key } = drawn;
  const row = row_of(drawn);
  const chosen = chosen_of(drawn);
  if (!row) return html`<p class="said-of-head hint">Choose a row to read what it ${verb} ${to}.</p>`;
  if (drawn.most !== undefined) return change_sentence(drawn, row);
  const best = row
    .map((weight, j) => ({ weight, j }))
    .filter(({ weight }) => weight >= kLeastSaid)
    .sort((a, b) => b.weight - a.weight)
    .slice(0, 3);
  const one = ({ weight, j }: { weight: number; j: number }): TemplateResult =>
    html`<bdi class="role-key said">${keys[j]}</bdi> (<span class="figure">${chosen.length > 1 ? number_text(weight) : share_text(weight)}</span>)`;
  const whole = row_sum(row);
  const sum =
    chosen.length > 1 || whole === 1 || best.length === 0
      ? nothing
      : html` All its weights together are <span class="figure">${number_text(whole)}</span>, not 1.`;
  const acts = chosen.length > 1 ? `together ${verb.replace(/s$/, "")}` : verb;
  return html`<p class="said-of-head" aria-live="polite">
    ${names_of(drawn)}
    ${best.length === 0
      ? `${acts} ${to} nothing: ${row.every((weight) => weight === 0) ? "its weights are all 0" : "no weight reaches 0.05 %"}.`
      : html`${acts} most ${to}
        ${best.map((entry, i) => html`${i === 0 ? nothing : i === 1 ? `, then ${to} ` : ", "}${one(entry)}`)}.${sum}`}
    ${key >= 0
      ? html`${chosen.length > 1 ? "The sum of their weights" : "Its weight"} to <bdi class="role-key said">${keys[key]}</bdi> is
          <strong class="weight-of-cell">${number_text(row[key] ?? NaN)}</strong>.`
      : nothing}
  </p>`;
}

// The groups of further queries, each once.
function also_of(text: string, query: number, rows: readonly Group[]): number[] {
  if (text === "" || query < 0) return [];
  const groups = text.split(",").map((token) => group_with(rows, Number(token)));
  return [...new Set(groups)].filter((group) => group >= 0 && group !== query);
}

export function large_head(
  weights: number[][],
  queries: Sequence,
  keys: Sequence,
  title: string,
  screen: Screen,
  hidden: Hidden | null = null,
  most?: number, // the weights are differences, of which this is the largest
  lines: readonly HeadLines[] | null = null, // of several heads
): LargeHead {
  const { address } = screen;
  const joinable = [queries, keys].some((one) => groups_of(one, true).length < one.tokens.length);
  const joined = address.words && joinable;
  const rows = groups_of(queries, joined),
    columns = groups_of(keys, joined);
  const first = (groups: typeof rows, at: number): number => groups[at]?.tokens[0] ?? -1;
  const query = group_with(rows, address.token);
  const also = also_of(address.also, query, rows);
  const chosen = query < 0 ? [] : [query, ...also];
  const picked = (next: number, how: Picked): number[] => {
    const others = chosen.filter((one) => one !== next);
    if (how === "extend") return next === also[0] ? also : [next, ...others];
    if (how === "toggle") return others.length === chosen.length ? [next, ...chosen] : others.length > 0 ? others : chosen;
    return next === query ? chosen : [next];
  };
  const pick = (next: number, key: number, how: Picked = "alone"): void => {
    const [last = -1, ...others] = picked(next, how);
    screen.go({
      token: first(rows, last),
      also: others.map((one) => first(rows, one)).join(","),
      key: first(columns, key),
    });
  };
  const word = queries.word_of[address.token] ?? -1;
  const pieces = queries.word_of.flatMap((one, i) => (one === word && word >= 0 ? [i] : []));
  const drawn: Drawn = {
    weights: join_weights(weights, rows, columns),
    queries: rows.map((group) => group.label),
    keys: columns.map((group) => group.label),
    query,
    also,
    key: group_with(columns, address.key),
    hidden: joined ? null : hidden,
    lines: lines?.map((one) => ({ ...one, weights: join_weights(one.weights, rows, columns) })) ?? null,
    pick,
    room: 685,
    most,
    screen,
  };
  const picture = picture_of(drawn);
  const sum = also.length > 0 ? row_of(drawn) : null;
  const body = html` <div class="bar-of-tools">
      ${show_choice(screen)}
      <label
        >Query
        <select
          @change=${(event: Event) => {
            const token = Number((event.target as HTMLSelectElement).value);
            if (token < 0) screen.go({ token, also: "" });
            else pick(group_with(rows, token), drawn.key, address.several ? "toggle" : "alone");
          }}
        >
          <option value="-1" ?selected=${drawn.query < 0}>all</option>
          ${rows.map(
            (group, i) =>
              html`<option value=${first(rows, i)} ?selected=${i === drawn.query}>
                ${i + 1}: ${short(group.label)}
              </option>`,
          )}
        </select></label
      >
      <label class="check"
        ><input
          type="checkbox"
          .checked=${address.several}
          @change=${(event: Event) => {
            const several = (event.target as HTMLInputElement).checked;
            screen.go(several ? { several } : { several, also: "" });
          }}
        />Add several up</label
      >
      ${!joined && pieces.length > 1
        ? html`<button
            class="plain"
            @click=${() => screen.go({ token: pieces[0] as number, also: pieces.slice(1).join(",") })}
          >
            Its whole word
          </button>`
        : nothing}
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
    ${sentence(drawn)} ${framed(drawn, picture, title)}
    ${most === undefined && address.show === "map"
      ? legend(screen.colors.heat, "0", number_text(scale_of(drawn.weights)), "weight, drawn by its root")
      : nothing}`;
  return {
    body,
    picture,
    table: table_of(
      title,
      sum ? [...drawn.queries, `sum of ${chosen.map((i) => drawn.queries[i]).join(" + ")}`] : drawn.queries,
      drawn.keys,
      rows.length + (sum ? 1 : 0),
      columns.length,
      (r, c) => (r < rows.length ? drawn.weights[r]?.[c] : sum?.[c]) ?? NaN,
    ),
  };
}
