// The model: a map whose attentions lead to their heads, what the masks hid, and what a sublayer passes on.
import { html, nothing, type TemplateResult } from "lit-html";
import { format_address } from "../address";
import { costs_of } from "../cost";
import type { Attention, Heads, Sublayer } from "../explanation";
import { type Hidden, hidden_of } from "./hidden";
import { text_tools } from "../live/text_tools";
import { map_picture } from "./map";
import { model_picture, name_of_part } from "./model_picture";
import { counted, largest, number_text } from "../numbers";
import { cannot } from "../runs/runs";
import { type Table, table_of } from "../save";
import type { Screen, Shown } from "../screen";

const share = (hidden: Hidden): string => `${hidden.pairs} of ${hidden.all} pairs of a query and a key`;

function place_of_attention(attention: Attention, hidden: Hidden, screen: Screen): TemplateResult {
  const to = format_address({ ...screen.address, view: "heads", attention: attention.name, head: "", cell: "", also: "" });
  return html`<li>
    <a href=${to}>${attention.title || "Attention"}</a>: ${counted(attention.layers, "layer")} of ${counted(attention.heads, "head")},
    ${counted(attention.queries.tokens.length, "query", "queries")}, ${counted(attention.keys.tokens.length, "key")};
    ${hidden.pairs === 0 ? "nothing is hidden." : `the mask hides ${share(hidden)}.`}
  </li>`;
}

// The pairs alone, without weights.
function mask_card(attention: Attention, hidden: Hidden, screen: Screen): TemplateResult {
  const nothing_yet = attention.queries.tokens.map(() => attention.keys.tokens.map(() => 0));
  const map = map_picture({
    weights: nothing_yet,
    queries: attention.queries.tokens,
    keys: attention.keys.tokens,
    query: -1,
    key: -1,
    hidden,
    pick: () => undefined,
    room: 380,
    screen: { ...screen, address: { ...screen.address, numbers: false } },
  });
  return html`<section class="card" aria-label=${`Mask of ${attention.title || "attention"}`}>
    <h2>What the mask hid: <bdi>${attention.title || "attention"}</bdi></h2>
    <p class="hint">${hidden.rules.join(" ")} Hidden: ${share(hidden)}, crossed out.</p>
    <div class="scroll large" tabindex="0" role="group" aria-label="Pairs that are hidden">${map}</div>
  </section>`;
}

function lengths_card(sublayer: Sublayer, heads: Heads): TemplateResult {
  const most = largest(sublayer.lengths) || 1;
  return html`<section class="card" aria-label="What a sublayer passes on" aria-live="polite">
    <h2>${name_of_part(sublayer, heads)}</h2>
    <p class="hint">
      <code>${sublayer.name}</code>: ${counted(sublayer.lengths.length, "vector")} of ${counted(sublayer.size, "number")}. The length of each:
    </p>
    <table class="measures">
      <tbody>
        ${sublayer.lengths.map(
          (length, i) =>
            html`<tr>
              <th scope="row"><bdi>${sublayer.sequence.tokens[i]}</bdi></th>
              <td>${number_text(length)}</td>
              <td class="meter-cell" aria-hidden="true">
                <span class="meter"><i .style=${`--part:${Math.min(1, length / most) || 0}`}></i></span>
              </td>
            </tr>`,
        )}
      </tbody>
    </table>
  </section>`;
}

function tables_of(heads: Heads): Table[] {
  const sequences = [...new Set(heads.sublayers.map(({ sequence }) => sequence))];
  const lengths = sequences.map((sequence) => {
    const own = heads.sublayers.filter((one) => one.sequence === sequence);
    const names = own.map(({ name, size }) => `${name} [${sequence.tokens.length}, ${size}]`);
    const at = (r: number, c: number): number => own[r]?.lengths[c] ?? NaN;
    return table_of(`lengths, ${sequence.name}`, names, sequence.tokens, own.length, sequence.tokens.length, at);
  });
  const masks = heads.attentions.flatMap((attention) => {
    const hidden = hidden_of(heads, attention);
    if (hidden.rules.length === 0) return [];
    const [queries, keys] = [attention.queries.tokens, attention.keys.tokens];
    const title = `hidden, ${attention.title || attention.name}`;
    return [table_of(title, queries, keys, queries.length, keys.length, hidden.rule_of)];
  });
  return [...lengths, ...masks];
}

export function model_view(heads: Heads, screen: Screen): Shown {
  const sublayer = heads.sublayers.find(({ name }) => name === screen.address.cell);
  const hidden = heads.attentions.map((one) => hidden_of(heads, one));
  const left_out = heads.left_out.heads;
  const body = html`${screen.live ? text_tools(heads, screen.live) : nothing}
    ${screen.other ? cannot(["This map is of this run alone: the view Heads subtracts the other."]) : nothing}
    <div class="split model-view">
      <section class="card" aria-label="The model">
        <h2>The model, from its input to its output</h2>
        <p class="hint">
          Numbers of tokens x size of their vectors. A head leads to its weights, another box to the lengths of its
          vectors.
        </p>
        <div class="scroll large model">${model_picture(heads, screen)}</div>
      </section>
      <div class="pile">
        <section class="card" aria-label="Places of attention">
          <h2>${heads.attentions.length === 1 ? "Where it attends" : `Its ${heads.attentions.length} places of attention`}</h2>
          <ul>
            ${heads.attentions.map((one, i) => place_of_attention(one, hidden[i] as Hidden, screen))}
          </ul>
          ${left_out.length > 0
            ? html`<p>
                Left out: ${left_out.map((one) => `${one.attention} head ${one.layer}.${one.head}`).join(", ")}. Such a
                head gives 0.
              </p>`
            : nothing}
        </section>
        ${sublayer ? lengths_card(sublayer, heads) : nothing}
        ${heads.attentions.map((one, i) =>
          (hidden[i] as Hidden).pairs > 0 ? mask_card(one, hidden[i] as Hidden, screen) : nothing,
        )}
      </div>
    </div>`;
  return {
    body,
    name: "model",
    costs: costs_of(heads.attentions),
    tables: () => tables_of(heads),
    picture: () => model_picture(heads, { ...screen, narrow: false }),
    command: (report) => report,
  };
}
