// A matrix on the page: a table of numbers, or where it is large a heat map; a cell of it can be chosen.
import { html, nothing, svg, type TemplateResult } from "lit-html";
import { kLetters } from "../colors";
import { signed_image } from "../grid";
import { begin_edit, cell_field, type Editing, is_edited } from "../live/cell_edit";
import { cell_text, clamp, largest, number_text, row_sum, signed_text } from "../numbers";
import type { Screen } from "../screen";
import { cell_id, value_at, type Window } from "./tensors";

const kMostColumns = 16; // of a table
const kMostCells = 400;

export interface MatrixUse {
  screen: Screen;
  chosen: string; // id of a cell
  lit: ReadonlySet<string>; // ids of the cells that it comes from
  pick(id: string): void;
  leave(step: 1 | -1): void; // Page Down, Page Up
  editing?: Editing; // where numbers can be changed
}

function numbers_of(window: Window): number[] {
  const all: number[] = [];
  for (let r = 0; r < window.height; ++r) for (let c = 0; c < window.width; ++c) all.push(value_at(window, r, c));
  return all;
}

const is_small = ({ height, width }: Window): boolean => width <= kMostColumns && height * width <= kMostCells;

const id_at = (window: Window, row: number, column: number): string =>
  cell_id(window.tensor.name, window.index(row, column));

// Where the chosen cell is in this window.
function place_of(window: Window, chosen: string): [number, number] | null {
  const prefix = `${window.tensor.name}:`;
  if (!chosen.startsWith(prefix)) return null;
  const index = chosen.slice(prefix.length).split(".").map(Number);
  if (window.lead.some((i, d) => index[d] !== i)) return null;
  const rest = index.slice(window.lead.length);
  const [row, column] = rest.length === 2 ? rest : [0, rest[0] ?? 0];
  return [row as number, column as number];
}

// Where a key leads from here; null: it is not ours.
export function moved(
  key: string,
  [row, column]: [number, number],
  height: number,
  width: number,
): [number, number] | null {
  const to: Record<string, [number, number]> = {
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1],
    Home: [row, 0],
    End: [row, width - 1],
  };
  const next = to[key];
  return next ? [clamp(next[0], 0, height - 1), clamp(next[1], 0, width - 1)] : null;
}

const can_edit = (window: Window, { editing }: MatrixUse): boolean =>
  !window.change && (editing?.can(window.tensor.name) ?? false);

// In its cell; of a map in the field below the step.
function edit(window: Window, use: MatrixUse, [row, column]: [number, number], typed: string): void {
  const id = id_at(window, row, column);
  if (id !== use.chosen) use.pick(id);
  if (is_small(window)) begin_edit(use.editing as Editing, id, number_text(value_at(window, row, column), 6), typed);
  else document.getElementById("number")?.focus();
}

const kBegins = /^(Enter|F2|[-\d.])$/; // keys that begin a change

function on_key(event: KeyboardEvent, window: Window, use: MatrixUse, place: [number, number]): void {
  if (event.key === "PageDown" || event.key === "PageUp") {
    event.preventDefault();
    return use.leave(event.key === "PageDown" ? 1 : -1);
  }
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (kBegins.test(event.key) && can_edit(window, use)) {
    event.preventDefault();
    return edit(window, use, place, event.key.length > 1 ? "" : event.key);
  }
  const next = moved(event.key, place, window.height, window.width);
  if (!next) return;
  event.preventDefault();
  const figure = event.currentTarget as HTMLElement;
  use.pick(id_at(window, ...next));
  figure.querySelector<HTMLElement>("[aria-selected=true]")?.focus();
}

let pressed = ""; // the cell, if it was chosen before the pointer went down on it: that alone chooses it

function cell(
  window: Window,
  use: MatrixUse,
  row: number,
  column: number,
  most: number,
  stop: boolean,
): TemplateResult {
  const value = value_at(window, row, column);
  const id = id_at(window, row, column);
  const chosen = id === use.chosen;
  const { across, down } = window;
  const begins = `${across && column > 0 && column % across === 0 ? " begins-column" : ""}${down && row > 0 && row % down === 0 ? " begins-row" : ""}`;
  const click = (): void => {
    if (pressed !== id || !can_edit(window, use)) use.pick(id);
    else if (!is_edited(id)) edit(window, use, [row, column], "");
  };
  const text = window.change ? signed_text(cell_text(value), value) : cell_text(value);
  return html`<td
    class=${`cell${chosen ? " chosen" : use.lit.has(id) ? " lit" : ""}${value < 0 ? " minus" : ""}${begins}`}
    data-id=${id}
    tabindex=${stop ? 0 : -1}
    aria-selected=${chosen}
    .style=${`--part:${Number.isFinite(value) && most > 0 ? Math.abs(value / most).toFixed(3) : 0}`}
    @mousedown=${() => (pressed = chosen ? id : "")}
    @click=${click}
    @focus=${() => chosen || use.pick(id)}
  >
    ${chosen && use.editing && is_edited(id)
      ? cell_field(use.editing, number_text(value, 6), `${window.title} ${row + 1}, ${column + 1}`)
      : html`<span class="figure">${text}</span>`}
  </td>`;
}

// Whose columns are whose.
function heads_of_columns(across: number, width: number, named_rows: boolean): TemplateResult {
  const heads = Array.from({ length: Math.ceil(width / across) }, (_, head) => `head ${head + 1}`);
  return html`<thead>
    <tr>
      ${named_rows ? html`<td></td>` : nothing}${heads.map(
        (name) => html`<th scope="colgroup" class="of-head" colspan=${across}>${name}</th>`,
      )}
    </tr>
  </thead>`;
}

function table(window: Window, use: MatrixUse, most: number): TemplateResult {
  const place = place_of(window, use.chosen);
  const stop = place ?? [0, 0];
  const columns = window.columns.length === window.width ? window.columns : [];
  const rows = window.rows.length === window.height ? window.rows : [];
  const label = `${window.title}, ${window.height} x ${window.width}`;
  return html`<div class="scroll">
    <table
      role="grid"
      aria-label=${label}
      aria-readonly=${use.editing ? !can_edit(window, use) : nothing}
      class="numbers"
      @keydown=${(event: KeyboardEvent) => on_key(event, window, use, stop)}
    >
      ${window.across
        ? heads_of_columns(window.across, window.width, rows.length > 0)
        : columns.length > 0
          ? html`<thead>
              <tr>
                ${rows.length > 0 ? html`<td></td>` : nothing}${columns.map(
                  (name) => html`<th scope="col"><bdi>${name}</bdi></th>`,
                )}
              </tr>
            </thead>`
          : nothing}
      <tbody>
        ${Array.from(
          { length: window.height },
          (_, r) =>
            html`<tr>
              ${rows.length > 0 ? html`<th scope="row"><bdi>${rows[r]}</bdi></th>` : nothing}
              ${Array.from({ length: window.width }, (_x, c) =>
                cell(window, use, r, c, most, r === stop[0] && c === stop[1]),
              )}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

// One small square a number. The chosen one and those it comes from are framed.
function heat_map(window: Window, use: MatrixUse, most: number): TemplateResult {
  const { height, width } = window;
  const place = place_of(window, use.chosen);
  const { colors } = use.screen;
  // A window is made anew each time; the numbers of its tensor stay.
  let owner: object = window.tensor.values as object;
  for (const i of window.lead) owner = (owner as readonly object[])[i] as object;
  const image = signed_image(owner, height, width, (r, c) => value_at(window, r, c), window.change ? "change" : window.role, most, colors);
  const lit: TemplateResult[] = [];
  for (let r = 0; r < height; ++r) {
    for (let c = 0; c < width; ++c) {
      if (use.lit.has(id_at(window, r, c))) lit.push(svg`<rect class="lit" x=${c} y=${r} width="1" height="1"></rect>`);
    }
  }
  const row_name = place ? (window.rows[place[0]] ?? `row ${place[0] + 1}`) : "";
  const name = place
    ? `${row_name}, number ${place[1] + 1}: ${number_text(value_at(window, ...place))}`
    : "no number chosen";
  const click = (event: MouseEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const c = ((event.clientX - box.left) / box.width) * width,
      r = ((event.clientY - box.top) / box.height) * height;
    use.pick(id_at(window, clamp(r, 0, height - 1), clamp(c, 0, width - 1)));
  };
  return html`<div
    class="heat"
    role="application"
    tabindex="0"
    aria-label=${`${window.title}, ${height} x ${width}, arrow keys choose a number; ${name}`}
    @keydown=${(event: KeyboardEvent) => on_key(event, window, use, place ?? [0, 0])}
  >
    <svg
      viewBox="0 0 ${width} ${height}"
      preserveAspectRatio="none"
      .style=${`--across:${width};--down:${height}`}
      @click=${click}
      aria-hidden="true"
    >
      <image href=${image} width=${width} height=${height} preserveAspectRatio="none"></image>
      ${heads_between(window)} ${lit} ${place ? svg`<rect class="chosen" x=${place[1]} y=${place[0]} width="1" height="1"></rect>` : nothing}
    </svg>
    ${place ? html`<p class="heat-name"><bdi>${name}</bdi></p>` : nothing}
  </div>`;
}

function heads_between({ across, down, width, height }: Window): TemplateResult[] {
  const lines: TemplateResult[] = [];
  if (across) for (let x = across; x < width; x += across) lines.push(svg`<path class="between" d=${`M${x} 0V${height}`}></path>`);
  if (down) for (let y = down; y < height; y += down) lines.push(svg`<path class="between" d=${`M0 ${y}H${width}`}></path>`);
  return lines;
}

const kNamed = 3; // rows

// Which rows of weights do not add up to 1.
function about_row_sums(window: Window): TemplateResult | typeof nothing {
  if (!/^(true )?weights( |$)/.test(window.tensor.name) || window.change || window.tensor.values === null) return nothing;
  const others = Array.from({ length: window.height }, (_, r) => {
    const row = Array.from({ length: window.width }, (_x, c) => value_at(window, r, c));
    return { name: window.rows[r] ?? `row ${r + 1}`, sum: row_sum(row, 5e-6) };
  }).filter(({ sum }) => sum !== 1);
  if (others.length === 0) return nothing;
  const more = others.length > kNamed ? ` and ${others.length - kNamed} more` : "";
  return html`<p class="hint row-sums">
    Do not add up to 1: ${others.slice(0, kNamed).map(({ name, sum }, i) => html`${i > 0 ? ", " : ""}<bdi>${name}</bdi> (<span class="figure">${number_text(sum)}</span>)`)}${more}.
  </p>`;
}

export function matrix(window: Window, use: MatrixUse): TemplateResult {
  const most = window.tensor.values === null ? 0 : largest(numbers_of(window));
  const shape = window.tensor.shape.slice(window.lead.length).join(" x ") || "1";
  return html`<figure class=${`matrix role-${window.role}${window.change ? " change" : ""}`}>
    <figcaption>
      <span class="letter" aria-hidden="true">${kLetters[window.role]}</span><span class="name">${window.title}</span>
      <span class="shape">${shape}</span>${window.tensor.substituted ? html`<span class="tag">put in</span>` : nothing}
    </figcaption>
    ${window.tensor.values === null
      ? html`<p class="hint">Too many numbers to keep; <code>--full</code> writes them.</p>`
      : is_small(window)
        ? table(window, use, most)
        : heat_map(window, use, most)}
    ${about_row_sums(window)}
  </figure>`;
}
