// One head in full: the numbers of one query from its score to its output, and whom all of them attend to.
import { html, nothing, type TemplateResult } from "lit-html";
import type { Head, Sequence } from "../explanation";
import { command_with } from "../command";
import { type LargeHead, large_head } from "./large_head";
import { short } from "./map";
import { matrix, type MatrixUse } from "../steps/matrices";
import { clamp, number_text } from "../numbers";
import { derive } from "../steps/products";
import { difference_of, largest_of, same_names } from "../runs/difference";
import { cannot } from "../runs/runs";
import { pair_panel, two_of } from "../runs/windows";
import { table_of } from "../save";
import type { Screen, Shown } from "../screen";
import { steps_picture } from "../steps/steps_picture";
import { cell_id, parse_cell, value_at, type Walk, walk_of_head, type Window, window_of } from "../steps/tensors";
import { terms_panel } from "../steps/terms";

const walks = new WeakMap<Head, Walk>();
function walk_of(head: Head): Walk {
  const walk = walks.get(head) ?? walk_of_head(head);
  walks.set(head, walk);
  return walk;
}

const sequence_of = (name: string, tokens: string[]): Sequence => ({
  name,
  caption: "",
  tokens,
  special: tokens.map(() => false),
  word_of: tokens.map(() => -1),
  words: [],
});

export function head_view(head: Head, screen: Screen): Shown {
  const walk = walk_of(head);
  const query = clamp(
    screen.address.token >= 0 ? screen.address.token : (head.token ?? 0),
    0,
    Math.max(0, head.tokens.length - 1),
  );
  const name = head.tokens[query] ?? "";
  const whole = (tensor: string): Window[] =>
    [walk.tensors.get(tensor)].flatMap((one) => (one ? [window_of(one)] : []));
  const row = (tensor: string): Window[] =>
    [walk.tensors.get(tensor)].flatMap((one) => (one ? [window_of(one, [query], `${tensor}, ${name}`)] : []));
  const scored = [...row("query"), ...whole("v"), ...whole("key")],
    logits = [...row("scores"), ...row("bias"), ...row("logits"), ...row("weights")];
  const passed = whole("value"),
    output = row("output");
  const asked = parse_cell(screen.address.cell);
  const chosen = asked && walk.tensors.holds(asked) ? screen.address.cell : cell_id("output", [query, 0]);
  const cell = parse_cell(chosen);
  const use: MatrixUse = {
    screen,
    chosen,
    lit: new Set(cell ? derive(walk, cell)?.terms.flatMap((term) => term.from) : []),
    pick: (id) => screen.go({ cell: id }),
    leave: (by) => screen.go({ token: clamp(query + by, 0, head.tokens.length - 1), cell: "" }),
  };
  const other = screen.other?.kind === "head" ? screen.other : null;
  const other_walk = other && walk_of(other);
  const all = (windows: readonly Window[]): TemplateResult =>
    html`<div class="matrices">${two_of(windows, other_walk).windows.map((window) => matrix(window, use))}</div>`;
  const gives = html`<p class="becomes" aria-hidden="true">gives</p>`;
  const title = `${head.title}`;
  const same = other !== null && same_names(head.tokens, other.tokens) && same_names(head.keys, other.keys);
  const kept: Screen = {
    ...screen,
    address: { ...screen.address, token: query },
    go: (patch) =>
      screen.go(
        patch.token === undefined ? patch : { ...patch, token: patch.token < 0 ? query : patch.token, cell: "" },
      ),
  };
  const large_of = ({ tokens, keys }: Head, weights: number[][], named: string, most?: number): LargeHead =>
    large_head(weights, sequence_of("queries", tokens), sequence_of("keys", keys), named, kept, null, most);
  const change = same ? difference_of(head.weights, other.weights) : null;
  const large = change
    ? large_of(head, change, "Weights, less those of the other run", largest_of([change]))
    : large_of(head, head.weights, "Weights");
  const theirs = other && !same ? large_of(other, other.weights, "Weights of the other run") : null;
  const windows = two_of([...scored, ...logits, ...passed, ...output], other_walk);

  const body = html` <div class="bar-of-tools">
      <label
        >Query
        <select
          @change=${(event: Event) => screen.go({ token: Number((event.target as HTMLSelectElement).value), cell: "" })}
        >
          ${head.tokens.map(
            (token, i) => html`<option value=${i} ?selected=${i === query}>${i + 1}: ${short(token)}</option>`,
          )}
        </select></label
      >
      <span class="fact">layer ${head.layer}, head ${head.head} of ${head.heads}</span>
      <span class="fact">score ${head.score}${head.scale === 1 ? "" : `, x ${number_text(head.scale)}`}</span>
      ${head.mask === "none" ? nothing : html`<span class="fact">mask: ${head.mask}</span>`}
    </div>
    <article class="step">
      <h2>How <bdi class="token">${name}</bdi> gets its output</h2>
      ${cannot(windows.lines)}
      <div class="stage">
        <div>
          ${all(scored)}${gives}${all(logits)}
          <p class="becomes" aria-hidden="true">and with the values</p>
          ${all(passed)}${gives}${all(output)}
        </div>
        ${other_walk ? pair_panel(walk, other_walk, chosen) : terms_panel(walk, chosen)}
      </div>
    </article>
    <section class="card" aria-label="All queries">
      <h2>Who attends to whom</h2>
      ${theirs ? cannot(["The two runs have other tokens here: their weights cannot be subtracted."]) : nothing}
      ${large.body} ${theirs ? html`<h3>Before</h3>${theirs.body}` : nothing}
    </section>`;
  return {
    body,
    name: `head-${head.layer}-${head.head}`,
    costs: head.cost ? [{ name: "", cost: head.cost }] : [],
    tables: () => [
      ...[large, theirs].flatMap((one) => (one ? [one.table] : [])),
      ...windows.windows.map((window) =>
        table_of(window.title, window.rows, window.columns, window.height, window.width, (r, c) =>
          value_at(window, r, c),
        ),
      ),
    ],
    picture: () => steps_picture(
        title,
        two_of([...scored, ...passed], other_walk).windows,
        two_of([...logits, ...output], other_walk).windows,
        screen,
      ),
    command: (report) =>
      head.token === query
        ? report
        : command_with(report.replace(/ --token ('[^']*'|\S+)/, ""), ` --token ${query}`, ""),
  };
}
