// A number that is changed in its cell: Enter and leaving the cell take what was typed, Escape keeps the number.
import { html, type TemplateResult } from "lit-html";

// What can be changed, and how.
export interface Editing {
  can(name: string): boolean; // numbers of this tensor
  put(id: string, text: string): boolean; // whether it is a number
  redraw(): void;
}

let edited: { id: string; text: string } | null = null;

export const is_edited = (id: string): boolean => edited?.id === id;

// `typed`: a letter that the number is to begin with, "" to change the number as it is.
export function begin_edit(editing: Editing, id: string, number: string, typed: string): void {
  edited = { id, text: typed || number };
  editing.redraw();
  const field = document.querySelector<HTMLInputElement>(".cell input");
  field?.focus();
  if (typed === "") field?.select();
}

function end_edit(editing: Editing, field: HTMLInputElement, takes: boolean, stays: boolean): void {
  const cell = field.closest("td");
  if (!edited) return; // a field that goes loses the focus
  const { id } = edited;
  if (takes && field.value !== field.defaultValue && !editing.put(id, field.value) && stays) {
    field.ariaInvalid = "true";
    return;
  }
  edited = null;
  editing.redraw();
  if (stays) cell?.focus();
}

export function cell_field(editing: Editing, number: string, name: string): TemplateResult {
  const on_key = (event: KeyboardEvent): void => {
    event.stopPropagation(); // arrows move within the field
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    end_edit(editing, event.target as HTMLInputElement, event.key === "Enter", true);
  };
  return html`<input
    inputmode="decimal"
    autocomplete="off"
    aria-label=${name}
    value=${number}
    .value=${edited?.text ?? number}
    @keydown=${on_key}
    @blur=${(event: Event) => end_edit(editing, event.target as HTMLInputElement, true, false)}
  />`;
}
