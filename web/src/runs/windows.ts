// Matrices of two runs: their difference, or where they cannot be subtracted both.
import { html, type TemplateResult } from "lit-html";
import type { Nested } from "../read/check";
import type { Tensor } from "../explanation";
import { change_text, number_text } from "../numbers";
import { parse_cell, type Walk, type Window, window_of, windows_of } from "../steps/tensors";
import { difference_of, same_names } from "./difference";

const size_of = (tensor: Tensor): string => tensor.shape.join(" x ");

function why_not(now: Tensor, then: Tensor | undefined): string {
  if (!then) return `${now.name}: the other run has none.`;
  if (now.shape.join() !== then.shape.join()) {
    return `${now.name} is ${size_of(now)} here and ${size_of(then)} there: it cannot be subtracted.`;
  }
  if (!now.values || !then.values) return `${now.name}: the numbers of one run were not kept.`;
  const differ = ([ours, theirs]: string[][]): boolean => !same_names(ours ?? [], theirs ?? []);
  return differ([now.rows, then.rows]) || differ([now.columns, then.columns])
    ? `${now.name} has other rows or columns there: it cannot be subtracted.`
    : "";
}

const changes = new WeakMap<Nested & object, Tensor>();

// That of this window, as `walk` of the other run has it.
function of_other(window: Window, then: Tensor): Window[] {
  const fits = then.shape.length === window.tensor.shape.length && window.lead.every((i, d) => i < (then.shape[d] ?? 0));
  const all = fits ? [window_of(then, window.lead, window.title)] : windows_of(then, (i) => `head ${i + 1}`);
  return all.map((one) => ({ ...one, title: `before: ${one.title}` }));
}

function two_windows(window: Window, other: Walk): { windows: Window[]; line: string } {
  const now = window.tensor,
    then = other.tensors.get(now.name);
  const line = why_not(now, then);
  if (line !== "" || !then) return { windows: [window, ...(then ? of_other(window, then) : [])], line };
  const values = difference_of(now.values as Nested & object, then.values as Nested & object);
  const tensor = changes.get(values) ?? { ...now, values, substituted: false };
  changes.set(values, tensor);
  return { windows: [{ ...window_of(tensor, window.lead, window.title), change: true }], line: "" };
}

// Differences to the other run, if there is one; where there is none, both and why.
export function two_of(windows: readonly Window[], other: Walk | null): { windows: Window[]; lines: string[] } {
  if (!other) return { windows: [...windows], lines: [] };
  const all = windows.map((window) => two_windows(window, other));
  return { windows: all.flatMap((one) => one.windows), lines: all.map((one) => one.line) };
}

// The chosen number in both.
export function pair_panel(walk: Walk, other: Walk, chosen: string): TemplateResult {
  const cell = parse_cell(chosen);
  if (!cell || !walk.tensors.holds(cell)) {
    return html`<section class="panel" aria-label="Both runs"><p class="hint">Choose a number to see both runs.</p></section>`;
  }
  const tensor = walk.tensors.get(cell.name) as Tensor;
  const now = walk.tensors.at(cell.name, ...cell.index);
  const comparable = why_not(tensor, other.tensors.get(cell.name)) === "";
  const then = other.tensors.at(cell.name, ...cell.index);
  const line = (name: string, text: string): TemplateResult =>
    html`<tr><th scope="row">${name}</th><td class="product">${text}</td></tr>`;
  return html`<section class="panel role-${tensor.role}" data-cell=${chosen} aria-label="Both runs" aria-live="polite">
    <h3><span class="what">${cell.name}</span> <span class="where">${cell.index.map((i) => i + 1).join(", ")}</span></h3>
    <table class="terms">
      <tbody>
        ${line("this run", number_text(now))}
        ${comparable ? [line("before", number_text(then)), line("difference", change_text(now, then))] : []}
      </tbody>
    </table>
  </section>`;
}
