// Every head of a model: all as small maps on one scale, one of them large.
import { html, nothing, type TemplateResult } from "lit-html";
import { css } from "./colors";
import { type Attention, type HeadEntry, type Heads, kMeasures, type Measure } from "./explanation";
import { command_with } from "./command";
import { heat_image } from "./grid";
import { large_head } from "./large_head";
import { number_text, share_text } from "./numbers";
import { table_of } from "./save";
import type { Screen, Shown } from "./screen";

const kSmall = 64; // pixels of a small map, at most

// In words: what a measure is.
const kSaid: Record<Measure, string> = {
  entropy: "entropy (nats)",
  distance: "mean distance (tokens)",
  first: "weight to the first token",
  previous: "weight to the token before",
  next: "weight to the token after",
  itself: "weight to itself",
  separators: "weight to separators",
};

const id_of = (head: HeadEntry): string => `${head.layer}.${head.head}`;

// Entropy and distance first the smallest, shares first the largest.
function sorted(all: readonly HeadEntry[], measure: Measure | null): HeadEntry[] {
  if (!measure) return [...all];
  const sign = measure === "entropy" || measure === "distance" ? 1 : -1;
  return [...all].sort((a, b) => sign * (a[measure] - b[measure]));
}

function measure_text(head: HeadEntry, measure: Measure): string {
  return measure === "entropy" || measure === "distance" ? number_text(head[measure], 2) : share_text(head[measure]);
}

// A measure as part of the largest that it can be.
function part_of(head: HeadEntry, measure: Measure, attention: Attention): number {
  const most =
    measure === "entropy" ? attention.largest_entropy : measure === "distance" ? attention.keys.tokens.length : 1;
  return Math.max(0, Math.min(1, head[measure] / (most || 1)));
}

function tile(
  head: HeadEntry,
  attention: Attention,
  measure: Measure | null,
  chosen: boolean,
  screen: Screen,
): TemplateResult {
  const id = id_of(head);
  return html`<button
    class="tile"
    aria-pressed=${chosen}
    @click=${() => screen.go({ head: id, attention: attention.name })}
  >
    ${head.weights
      ? html`<img src=${heat_image(head.weights, screen.colors, kSmall)} alt="" />`
      : html`<span class="meter" aria-hidden="true"
          ><i .style=${`--part:${part_of(head, measure ?? "entropy", attention)}`}></i
        ></span>`}
    <span class="tile-name">${id}<span class="sr"> layer ${head.layer}, head ${head.head}</span></span>
    <span class="tile-value"
      >${measure ? measure_text(head, measure) : head.pattern === "none" ? html`&nbsp;` : head.pattern}</span
    >
  </button>`;
}

function measures(head: HeadEntry, attention: Attention): TemplateResult {
  return html`<table class="measures">
    <caption>
      Measures, means over the queries
    </caption>
    <tbody>
      ${kMeasures.map(
        (measure) =>
          html`<tr>
            <th scope="row">${kSaid[measure]}</th>
            <td>
              ${measure_text(head, measure)}${measure === "entropy"
                ? html` <span class="shape">of ${number_text(attention.largest_entropy, 2)}</span>`
                : nothing}
            </td>
            <td class="meter-cell" aria-hidden="true">
              <span class="meter"><i .style=${`--part:${part_of(head, measure, attention)}`}></i></span>
            </td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

function legend(screen: Screen): TemplateResult {
  const stops = screen.colors.heat;
  const gradient = `background:linear-gradient(to right,${stops.map((color) => css(color)).join(",")})`;
  return html`<div class="legend" aria-hidden="true">
    <span>0</span><span class="ramp" .style=${gradient}></span><span>1</span
    ><span class="shape">weight, drawn by its root</span>
  </div>`;
}

const kOption = (name: string): string => name.replaceAll("_", "-");

export function heads_view(heads: Heads, screen: Screen): Shown {
  const { address } = screen;
  const attention =
    heads.attentions.find((one) => one.name === address.attention) ?? (heads.attentions.at(-1) as Attention);
  const measure = kMeasures.find((one) => one === address.sort) ?? null;
  const head = attention.all.find((one) => id_of(one) === address.head) ?? (attention.all[0] as HeadEntry);
  const title = `${attention.title || "Attention"}, layer ${head.layer}, head ${head.head}`;
  const large = head.weights ? large_head(head.weights, attention.queries, attention.keys, title, screen) : null;
  const by_place = measure === null && attention.all.length === attention.layers * attention.heads;

  const body = html` ${heads.sequences.map(
      (one) =>
        html`<p class="sequence">
          <span class="about">${one.caption.trim()}</span> ${one.tokens.map(
            (token, i) => html`<bdi class=${one.special[i] ? "token special" : "token"}>${token}</bdi> `,
          )}
        </p>`,
    )}
    <div class="bar-of-tools">
      ${heads.attentions.length > 1
        ? html`<div class="choices" role="group" aria-label="Attention">
            ${heads.attentions.map(
              (one) =>
                html`<button
                  class="plain"
                  aria-pressed=${one === attention}
                  @click=${() => screen.go({ attention: one.name, head: "", token: -1, key: -1 })}
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
          ${kMeasures.map((one) => html`<option value=${one} ?selected=${one === measure}>${kSaid[one]}</option>`)}
        </select></label
      >
      ${legend(screen)}
    </div>
    <div class="split">
      <section class="card all-heads" aria-label="All heads">
        <h2>All heads</h2>
        <p class="hint">
          ${attention.caption}${attention.mask === "causal" ? "; no query sees a later key" : ""}. ${attention.layers}
          layers of ${attention.heads} heads.
        </p>
        <div class=${by_place ? "tiles by-place" : "tiles"} .style=${`--heads:${attention.heads}`}>
          ${sorted(attention.all, measure).map((one) => tile(one, attention, measure, one === head, screen))}
        </div>
      </section>
      <section class="card one-head" aria-label="One head">
        <h2><bdi>${title}</bdi></h2>
        ${head.pattern === "none"
          ? nothing
          : html`<p class="hint">By its weights a head of the kind <strong>${head.pattern}</strong>.</p>`}
        ${large ? large.body : html`<p class="hint">Its weights were not kept: <code>--weights</code> keeps them.</p>`}
        ${measures(head, attention)}
      </section>
    </div>`;
  const names = attention.all.map(id_of);
  const site = heads.attentions.length > 1 ? ` --attention ${kOption(attention.name)}` : "";
  return {
    body,
    name: `head-${head.layer}-${head.head}`,
    tables: () => [
      ...(large ? [large.table] : []),
      table_of(
        attention.title || attention.name,
        names,
        kMeasures,
        names.length,
        kMeasures.length,
        (r, c) => (attention.all[r] as HeadEntry)[kMeasures[c] as Measure],
      ),
    ],
    picture: () => large?.picture ?? null,
    command: (report) =>
      command_with(report, `${site} --layer ${head.layer} --head ${head.head}`, heads.translation?.source_text ?? ""),
  };
}
