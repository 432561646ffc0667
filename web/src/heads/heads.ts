// Every head of a model: all as small maps on one scale, one of them large.
import { html, nothing, type TemplateResult } from "lit-html";
import { costs_of } from "../cost";
import {
  type Attention,
  type CopyMeasure,
  type HeadEntry,
  type Heads,
  kCopyMeasures,
  kMeasures,
  type Measure,
  type Sequence,
  type TokenMeasure,
} from "../explanation";
import { command_with, site_option } from "../command";
import { change_image, heat_image } from "../grid";
import { type Hidden, hidden_of } from "./hidden";
import { type LargeHead, large_head } from "./large_head";
import { head_tools, text_tools } from "../live/text_tools";
import { coarse_of, large_map } from "../maps/maps";
import { id_of, lines_choice, lines_of } from "./several";
import { counted, largest, number_text, share_text, signed_text } from "../numbers";
import { type AttentionPair, entry_of, pair_of } from "../runs/heads_pair";
import { cannot, change_legend } from "../runs/runs";
import { table_of } from "../save";
import type { Screen, Shown } from "../screen";

const kSmall = 64; // pixels of a small map, at most
const kFolded = 64; // tokens, more of which would fill the screen

// Of heads: those of their weights, and those that not every report has.
const kMore = ["beyond", "moved", ...kCopyMeasures, "value_norm", "gradient", "knock_out"] as const satisfies readonly (
  | TokenMeasure
  | CopyMeasure
  | "beyond"
  | "moved"
)[];
type HeadMeasure = Measure | (typeof kMore)[number];

// In words: what a measure is.
const kSaid: Record<HeadMeasure, string> = {
  entropy: "entropy (nats)",
  distance: "mean distance (tokens)",
  first: "weight to the first token",
  previous: "weight to the token before",
  next: "weight to the token after",
  itself: "weight to itself",
  separators: "weight to separators",
  induction: "weight behind earlier copies of a token",
  duplicate: "weight to earlier copies of a token",
  beyond: "weight that the mask alone would put elsewhere",
  moved: "weight that went to other keys",
  value_norm: "weight x length of the value",
  gradient: "gradient x weight, of the token",
  knock_out: "knock-out, of the token",
};

const is_share = (measure: HeadMeasure): boolean => ["beyond", "moved", ...kCopyMeasures].includes(measure);
const is_more = (measure: HeadMeasure): measure is (typeof kMore)[number] => kMore.some((one) => one === measure);
const value_of = (head: HeadEntry, measure: HeadMeasure): number =>
  is_more(measure) ? (head.more[measure] ?? NaN) : head[measure];

// Of places: they say nothing where queries and keys are of two sequences.
const kOfPlaces: readonly HeadMeasure[] = ["distance", "previous", "next", "itself"];

// Those that this attention has.
const measures_of = (attention: Attention): HeadMeasure[] => [
  ...kMeasures.filter((one) => attention.queries === attention.keys || !kOfPlaces.includes(one)),
  ...kMore.filter((one) => attention.all.every((head) => head.more[one] !== undefined)),
];

// A language model reads what it wrote, too.
function text_read({ translation }: Heads): string {
  return translation ? translation.source_text + (translation.continues ? translation.target_text : "") : "";
}

const kOfMask = 0.2; // a head of which less is beyond its mask shows the mask

const pattern_of = ({ pattern, more }: HeadEntry): string => ((more.beyond ?? 1) < kOfMask ? "none" : pattern);

// Entropy and distance first the smallest, shares first the largest; the others, and changes, by size, whatever the sign.
function sorted(all: readonly HeadEntry[], measure: HeadMeasure | null, changes: boolean): HeadEntry[] {
  if (!measure) return [...all];
  if (changes || is_more(measure)) {
    return [...all].sort((a, b) => Math.abs(value_of(b, measure)) - Math.abs(value_of(a, measure)));
  }
  const sign = measure === "entropy" || measure === "distance" ? 1 : -1;
  return [...all].sort((a, b) => sign * (a[measure] - b[measure]));
}

function measure_text(head: HeadEntry, measure: HeadMeasure): string {
  if (is_share(measure)) return share_text(value_of(head, measure));
  if (is_more(measure)) return number_text(value_of(head, measure), 3);
  return measure === "entropy" || measure === "distance" ? number_text(head[measure], 2) : share_text(head[measure]);
}

// A measure as part of the largest that it can be.
function part_of(head: HeadEntry, measure: HeadMeasure, attention: Attention): number {
  const most = is_more(measure) && !is_share(measure)
    ? largest(attention.all.map((one) => value_of(one, measure)))
    : measure === "entropy" ? attention.largest_entropy : measure === "distance" ? attention.keys.tokens.length : 1;
  return Math.max(0, Math.min(1, Math.abs(value_of(head, measure)) / (most || 1)));
}

function tile(
  head: HeadEntry,
  attention: Attention,
  measure: HeadMeasure | null,
  chosen: boolean,
  most: number | null, // of changes
  screen: Screen,
): TemplateResult {
  const id = id_of(head);
  const shown = measure ?? (most === null ? null : "moved");
  const drawn = head.weights ?? (head.map && coarse_of(head.map));
  return html`<button
    class="tile"
    aria-pressed=${chosen}
    @click=${() => screen.go({ head: id, attention: attention.name })}
  >
    ${drawn
      ? html`<img
          src=${most === null ? heat_image(drawn, screen.colors, kSmall, null, attention.keys.tokens.length) : change_image(drawn, most, screen.colors)}
          alt=""
        />`
      : html`<span class="meter" aria-hidden="true"
          ><i .style=${`--part:${part_of(head, measure ?? "entropy", attention)}`}></i
        ></span>`}
    <span class="tile-name">${id}<span class="sr"> layer ${head.layer}, head ${head.head}</span></span>
    <span class=${`tile-value${shown ? " figure" : ""}`}
      >${shown ? measure_text(head, shown) : pattern_of(head) === "none" ? html`&nbsp;` : pattern_of(head)}</span
    >
  </button>`;
}

function measures(head: HeadEntry, attention: Attention, pair: AttentionPair | null): TemplateResult {
  const theirs = pair && entry_of(pair.theirs, head);
  const change = pair && entry_of(pair.attention, head);
  const text = (one: HeadEntry | null | undefined, measure: HeadMeasure): string => (one ? measure_text(one, measure) : "-");
  return html`<table class="measures">
    <caption>
      Measures, means over the queries
    </caption>
    ${pair
      ? html`<thead>
          <tr>
            <td></td>
            ${["this run", "before", "difference"].map((name) => html`<th scope="col">${name}</th>`)}
          </tr>
        </thead>`
      : nothing}
    <tbody>
      ${measures_of(attention).map(
        (measure) =>
          html`<tr>
            <th scope="row">${kSaid[measure]}</th>
            <td>
              ${measure_text(head, measure)}${measure === "entropy" && !pair
                ? html` <span class="shape">of ${number_text(attention.largest_entropy, 2)}</span>`
                : nothing}
            </td>
            ${pair
              ? html`<td>${text(theirs, measure)}</td>
                  <td>${change ? signed_text(text(change, measure), value_of(change, measure)) : "-"}</td>`
              : html`<td class="meter-cell" aria-hidden="true">
                  <span class="meter"><i .style=${`--part:${part_of(head, measure, attention)}`}></i></span>
                </td>`}
          </tr>
          ${measure === "entropy" && !pair
            ? html`<tr>
                <th scope="row">effective number of keys, exp(entropy)</th>
                <td>${number_text(Math.exp(head.entropy), 1)}</td>
                <td></td>
              </tr>`
            : nothing}`,
      )}
    </tbody>
  </table>`;
}

// What was read, or written; of many tokens to be opened.
function tokens_of({ caption, tokens, special }: Sequence): TemplateResult {
  const about = html`<span class="about">${caption.trim()}</span>`;
  const all = tokens.map((token, i) => html`<bdi class=${special[i] ? "token special" : "token"}>${token}</bdi> `);
  return tokens.length > kFolded
    ? html`<details class="sequence"><summary>${about} ${counted(tokens.length, "token")}</summary>${all}</details>`
    : html`<p class="sequence">${about} ${all}</p>`;
}

// Of `qkv explain`, to show this head alone.
function head_options(heads: Heads, attention: Attention, head: HeadEntry): string[] {
  const site = heads.attentions.length > 1 ? ["--attention", site_option(attention.name)] : [];
  return [...site, "--layer", String(head.layer), "--head", String(head.head)];
}

export function heads_view(heads: Heads, screen: Screen): Shown {
  const { address } = screen;
  const own = heads.attentions.find((one) => one.name === address.attention) ?? (heads.attentions.at(-1) as Attention);
  const other = screen.other?.kind === "heads" ? screen.other : null;
  const pair = other && pair_of(own, other);
  const attention = pair?.attention ?? own;
  const most = pair?.line === "" ? pair.most : null;
  const known = measures_of(attention);
  const measure = known.find((one) => one === address.sort) ?? null;
  const head = attention.all.find((one) => id_of(one) === address.head) ?? (attention.all[0] as HeadEntry);
  const masks = hidden_of(heads, own);
  const title = `${attention.title || "Attention"}, layer ${head.layer}, head ${head.head}`;
  const own_head = entry_of(own, head) as HeadEntry;
  const their_head = pair && entry_of(pair.theirs, head);
  const large_of = (weights: number[][] | null | undefined, whose: Attention, named: string, hidden: Hidden): LargeHead | null =>
    weights
      ? large_head(weights, whose.queries, whose.keys, named, screen, hidden.pairs > 0 ? hidden : null, most ?? undefined, whose === own ? lines : null)
      : null;
  const lines = address.show === "lines" && most === null && own_head.weights ? lines_of(own, own_head, screen) : null;
  const large = own_head.map
    ? large_map(own_head.map, own, title, screen)
    : large_of(most === null ? own_head.weights : head.weights, own, title, masks);
  const theirs =
    pair && other && most === null
      ? large_of(their_head?.weights, pair.theirs, `${title}, of the other run`, hidden_of(other, pair.theirs))
      : null;
  const by_place = measure === null && attention.all.length === attention.layers * attention.heads;

  const body = html` ${screen.live ? text_tools(heads, screen.live) : nothing}
    ${(pair && pair.line !== "" && other ? [...heads.sequences, ...other.sequences] : heads.sequences).map(tokens_of)}
    <div class="bar-of-tools">
      ${heads.attentions.length > 1
        ? html`<div class="choices" role="group" aria-label="Attention">
            ${heads.attentions.map(
              (one) =>
                html`<button
                  class="plain"
                  aria-pressed=${one === own}
                  @click=${() => screen.go({ attention: one.name, head: "", lines: "", token: -1, also: "", key: -1 })}
                >
                  ${one.title || one.name}
                </button>`,
            )}
          </div>`
        : nothing}
      <label
        >Sorted by
        <select @change=${(event: Event) => screen.go({ sort: (event.target as HTMLSelectElement).value })}>
          <option value="place" ?selected=${!measure}>place</option>
          ${known.map((one) => html`<option value=${one} ?selected=${one === measure}>${kSaid[one]}</option>`)}
        </select></label
      >
      ${most === null ? nothing : change_legend(most, screen)}
    </div>
    ${other ? cannot([pair ? pair.line : "The other run has no such attention."]) : nothing}
    <div class="split">
      <section class="card all-heads" aria-label="All heads">
        <h2>All heads</h2>
        <p class="hint">
          ${attention.caption && `${attention.caption}. `}${masks.rules.join(" ")} ${counted(attention.layers, "layer")}
          of ${counted(attention.heads, "head")}. Each map has its own scale, up to its largest weight.
        </p>
        <div class=${by_place ? "tiles by-place" : "tiles"} .style=${`--heads:${attention.heads}`}>
          ${sorted(attention.all, measure, pair !== null).map((one) =>
            tile(most === null ? (entry_of(own, one) ?? one) : one, attention, measure, one === head, most, screen),
          )}
        </div>
      </section>
      <section class="card one-head" aria-label="One head">
        <h2><bdi>${title}</bdi></h2>
        ${pattern_of(head) === head.pattern
          ? head.pattern === "none"
            ? nothing
            : html`<p class="hint">By its weights a head of the kind <strong>${head.pattern}</strong>.</p>`
          : html`<p class="hint">It attends nearly as evenly as its mask lets it: what stands out is the mask.</p>`}
        ${lines ? lines_choice(own, own_head, lines, screen) : nothing}
        ${large ? large.body : html`<p class="hint">Its weights were not kept: <code>--weights</code> keeps them.</p>`}
        ${theirs ? html`<h3>Before</h3>${theirs.body}` : nothing} ${measures(own_head, own, pair)}
        ${head_tools(heads, own, head, head_options(heads, own, head), screen.live)}
      </section>
    </div>`;
  const names = attention.all.map(id_of);
  return {
    body,
    name: `head-${head.layer}-${head.head}`,
    costs: costs_of([attention]),
    tables: () => [
      ...[large, theirs].flatMap((one) => (one ? [one.table] : [])),
      table_of(
        attention.title || attention.name,
        names,
        known,
        names.length,
        known.length,
        (r, c) => value_of(attention.all[r] as HeadEntry, known[c] as HeadMeasure),
      ),
    ],
    picture: () => large?.picture ?? null,
    command: (report) =>
      command_with(report, ` ${head_options(heads, attention, head).join(" ")}`, text_read(heads)),
  };
}
