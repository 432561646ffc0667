// What can be changed of the steps: a number, the score, the mask, the heads, what is put in.
import { html, nothing, type TemplateResult } from "lit-html";
import { live as bound } from "lit-html/directives/live.js";
import { kScores, type Score, type Steps } from "../explanation";
import { number_text } from "../numbers";
import { type Cell, parse_cell, type Walk } from "../steps/tensors";
import type { Editing } from "./cell_edit";
import { slider, unless_typed } from "./fields";
import type { Live } from "./live";
import type { Nested } from "../read/check";
import { type Setup, way_to_change, with_number } from "./setup";

const kMostShown = 16; // queries and keys of the table of a mask

const number_of = (text: string): number => (text.trim() === "" ? NaN : Number(text.trim().replace(",", ".")));
const value_of = (event: Event): string => (event.target as HTMLInputElement).value;

function set_number(steps: Steps, walk: Walk, { name, index }: Cell, next: number, live: Live, lasting = true): void {
  const values = walk.tensors.get(name)?.values;
  live.change(
    steps,
    (changed) => {
      const to = way_to_change(name, changed) === "give" ? changed.matrices : changed.substitutes;
      changed.files.delete(name);
      if (values) to.set(name, with_number(to.get(name) ?? values, index, next));
    },
    lasting,
  );
}

const not_a_number = (text: string): string => `"${text}" is not a number: the last result stays.`;

export const editing_of = (steps: Steps, walk: Walk, live: Live): Editing => ({
  can: (name) => walk.tensors.has(name) && way_to_change(name, live.setup_of(steps)) !== null,
  put: (id, text) => {
    const [cell, next] = [parse_cell(id), number_of(text)];
    if (!cell || !Number.isFinite(next)) live.say(not_a_number(text));
    else set_number(steps, walk, cell, next, live);
    return Number.isFinite(next);
  },
  redraw: () => live.redraw(),
});

// From nothing to the next of 4, 40, 400, to both sides; of weights a part of 1.
function range_of(name: string, value: number): readonly [number, number, number] {
  if (name === "weights" && value >= 0 && value <= 1) return [0, 1, 0.01];
  const most = 4 * 10 ** Math.max(0, Math.ceil(Math.log10(Math.abs(value) / 4 || 1)));
  return [-most, most, most / 40];
}

// The field of the number that is chosen, and its slider.
function number_field(steps: Steps, walk: Walk, chosen: string, live: Live): TemplateResult {
  const cell = parse_cell(chosen);
  const setup = live.setup_of(steps);
  const way = cell && walk.tensors.holds(cell) ? way_to_change(cell.name, setup) : null;
  if (!cell || !way) {
    return html`<p class="hint">Choose a number of the inputs or the weights to change it.</p>`;
  }
  // As it was asked for, though what follows from it may still be computed.
  const asked = (way === "give" ? setup.matrices : setup.substitutes).get(cell.name);
  const now = cell.index.reduce<unknown>((values, i) => (values as Nested[] | undefined)?.[i], asked);
  const value = typeof now === "number" ? now : walk.tensors.at(cell.name, ...cell.index);
  const change = (event: Event): void => {
    const next = number_of(value_of(event));
    if (!Number.isFinite(next)) return live.say(not_a_number(value_of(event)));
    set_number(steps, walk, cell, next, live);
  };
  const name = `${cell.name} ${cell.index.map((i) => i + 1).join(", ")}`;
  return html`<label
      >${way === "give" ? "Number" : "Put in"}: ${name}
      <input id="number" inputmode="decimal" autocomplete="off" .value=${unless_typed("number", number_text(value, 6))} @change=${change}
    /></label>
    ${slider(`Slide ${name}`, "", value, range_of(cell.name, value), "", (next, lasting) => set_number(steps, walk, cell, next, live, lasting))}`;
}

// By its logarithm: half of the scale is twice the temperature.
function scale_slider(steps: Steps, setup: Setup, live: Live): TemplateResult {
  const scale = setup.scale ?? steps.scale;
  const said = `temperature ${number_text(1 / scale, 2)}`;
  return slider("Slide the scale", "", Math.log2(Math.max(scale, 2 ** -5)), [-5, 3, 0.25], said, (power, lasting) =>
    live.change(
      steps,
      (changed) => {
        changed.scale = Number((2 ** power).toPrecision(6));
      },
      lasting,
    ),
  );
}

function window_slider(steps: Steps, walk: Walk, setup: Setup, live: Live): TemplateResult | typeof nothing {
  const most = walk.tensors.size("inputs", -2) - 1;
  if (most < 1) return nothing;
  const now = Math.min(setup.window ?? most, most);
  const said = now === most ? "all keys" : now === 0 ? "its own key" : `${now} to each side`;
  return slider("Window", "Window", now, [0, most, 1], said, (keys, lasting) =>
    live.change(
      steps,
      (changed) => {
        changed.window = keys < most ? keys : null;
      },
      lasting,
    ),
  );
}

function score_fields(steps: Steps, setup: Setup, live: Live): TemplateResult {
  return html`<label
      >Score
      <select
        ?disabled=${setup.heads > 0}
        @change=${(event: Event) =>
          live.change(steps, (changed) => {
            changed.score = value_of(event) as Score;
            changed.scale = null;
          })}
      >
        ${kScores.map((one) => html`<option ?selected=${one === setup.score}>${one}</option>`)}
      </select></label
    >
    <label
      >Scale
      <input
        id="scale"
        inputmode="decimal"
        autocomplete="off"
        ?disabled=${setup.heads > 0}
        placeholder="of the score"
        .value=${unless_typed("scale", setup.scale === null ? "" : String(Number(setup.scale.toFixed(6))))}
        @change=${(event: Event) => {
          const next = value_of(event) === "" ? null : number_of(value_of(event));
          if (next !== null && !Number.isFinite(next)) {
            return live.say(not_a_number(value_of(event)));
          }
          live.change(steps, (changed) => {
            changed.scale = next;
          });
        }}
    /></label>
    ${setup.heads > 0 ? nothing : scale_slider(steps, setup, live)}`;
}

function heads_fields(steps: Steps, walk: Walk, setup: Setup, live: Live): TemplateResult {
  const sizes = ["w_query", "w_value"].map((name) => walk.tensors.size(name, -1));
  const fits = Array.from({ length: Math.max(1, ...sizes) }, (_, i) => i + 1).filter((n) =>
    sizes.every((size) => size > 0 && size % n === 0),
  );
  const rows = walk.tensors.get("w_out")?.values as number[][] | undefined;
  const each = rows && setup.heads > 0 ? rows.length / setup.heads : 0;
  const is_out = (head: number): boolean =>
    (rows ?? []).slice(head * each, (head + 1) * each).every((row) => row.every((value) => value === 0));
  return html`<label
      >Heads
      <select
        @change=${(event: Event) =>
          live.change(steps, (changed) => {
            changed.heads = Number(value_of(event));
            changed.substitutes.clear();
            changed.matrices.delete("w_out");
          })}
      >
        <option value="0" ?selected=${setup.heads === 0}>one, without W_O</option>
        ${fits.map((n) => html`<option value=${n} ?selected=${setup.heads === n}>${n}</option>`)}
      </select></label
    >
    ${rows && setup.heads > 1
      ? html`<span class="choices" role="group" aria-label="Leave out a head">
          ${Array.from(
            { length: setup.heads },
            (_, head) =>
              html`<button
                class="plain"
                ?disabled=${is_out(head)}
                @click=${() =>
                  live.change(steps, (changed) => {
                    const kept = rows.map((row, r) => (Math.floor(r / each) === head ? row.map(() => 0) : row));
                    changed.matrices.set("w_out", kept);
                  })}
              >
                ${is_out(head) ? `head ${head + 1} is out` : `Without head ${head + 1}`}
              </button>`,
          )}
        </span>`
      : nothing}`;
}

// A table of who may see whom; a name at the top hides or shows a key to all.
function mask_table(steps: Steps, walk: Walk, setup: Setup, live: Live): TemplateResult | typeof nothing {
  const names = walk.tensors.get("inputs")?.rows ?? [];
  const n = walk.tensors.size("inputs", -2);
  if (n > kMostShown) return nothing;
  const name = (i: number): string => names[i] ?? `input ${i + 1}`;
  const hidden = steps.mask?.hidden ?? null;
  const allowed = (i: number, j: number): boolean => (setup.visible ? setup.visible[i]?.[j] === 1 : true);
  const sees = (i: number, j: number): boolean => (hidden?.[i]?.[j] ?? 0) === 0;
  const set = (change: (i: number, j: number) => boolean | null): void => {
    if (setup.files.has("mask")) return live.say("The mask is that of your file: change it there, and drop it again.");
    live.change(steps, (changed) => {
      const next = Array.from({ length: n }, (_, i) =>
        Array.from({ length: n }, (_x, j) => ((change(i, j) ?? allowed(i, j)) ? 1 : 0)),
      );
      changed.visible = next.every((row) => row.every((one) => one === 1)) ? null : next;
    });
  };
  return html`<div class="scroll">
    <table class="mask">
      <caption>
        Which query (row) sees which key (column)
      </caption>
      <thead>
        <tr>
          <td></td>
          ${Array.from({ length: n }, (_, j) => {
            const all = Array.from({ length: n }, (_x, i) => allowed(i, j)).every(Boolean);
            return html`<th scope="col">
              <button
                class="plain"
                aria-pressed=${all}
                aria-label=${`${name(j)} is seen by all`}
                @click=${() => set((_i, key) => (key === j ? !all : null))}
              >
                <bdi>${name(j)}</bdi>
              </button>
            </th>`;
          })}
        </tr>
      </thead>
      <tbody>
        ${Array.from(
          { length: n },
          (_, i) =>
            html`<tr>
              <th scope="row"><bdi>${name(i)}</bdi></th>
              ${Array.from(
                { length: n },
                (_x, j) =>
                  html`<td>
                    <button
                      class="see"
                      aria-pressed=${sees(i, j)}
                      aria-label=${`${name(i)} sees ${name(j)}`}
                      ?disabled=${allowed(i, j) && !sees(i, j)}
                      @click=${() => set((query, key) => (query === i && key === j ? !allowed(i, j) : null))}
                    >
                      ${sees(i, j) ? "sees" : "hidden"}
                    </button>
                  </td>`,
              )}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

export function steps_tools(steps: Steps, walk: Walk, chosen: string, live: Live): TemplateResult {
  const setup = live.setup_of(steps);
  return html`<section class="card live" aria-label="Change it">
    <h2>Change it <span class="fact" role="status">${live.busy ? "Computing..." : ""}</span></h2>
    <p class="hint">A chosen number is changed in its cell: click it again, press Enter or type. Everything after it follows.</p>
    <div class="bar-of-tools">
      ${number_field(steps, walk, chosen, live)} ${score_fields(steps, setup, live)}
      <label class="check"
        ><input
          type="checkbox"
          .checked=${bound(setup.causal)}
          @change=${(event: Event) =>
            live.change(steps, (changed) => {
              changed.causal = (event.target as HTMLInputElement).checked;
            })}
        />Look-ahead mask</label
      >
      ${window_slider(steps, walk, setup, live)}
      ${heads_fields(steps, walk, setup, live)}
      ${[...setup.substitutes.keys()].map(
        (name) =>
          html`<button
            class="plain"
            @click=${() => live.change(steps, (changed) => void changed.substitutes.delete(name))}
          >
            Compute ${name} again
          </button>`,
      )}
      <label class="plain file"
        >Open arrays<input
          type="file"
          multiple
          accept=".npy,.csv,.json"
          @change=${(event: Event) => {
            const field = event.target as HTMLInputElement;
            void live.open_files([...(field.files ?? [])]);
            field.value = "";
          }}
      /></label>
      <button class="plain" ?disabled=${!live.before(steps)} @click=${() => live.reset(steps)}>Reset</button>
    </div>
    <details>
      <summary>Mask</summary>
      ${mask_table(steps, walk, setup, live)}
    </details>
    ${live.fault ? html`<p class="fault" role="alert">${live.fault}</p>` : nothing}
  </section>`;
}
