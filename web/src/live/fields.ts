// Fields that the reader changes, drawn anew while they have the focus.
import { html, noChange, type TemplateResult } from "lit-html";
import { live } from "lit-html/directives/live.js";

// What is typed stays as it is.
export const unless_typed = (id: string, value: string): unknown =>
  document.activeElement?.id === id ? noChange : live(value);

// Slides a number; `lasting` once it is let go.
export function slider(
  name: string,
  label: string, // that is shown
  now: number,
  [least, most, step]: readonly [number, number, number],
  said: string,
  set: (value: number, lasting: boolean) => void,
): TemplateResult {
  const give = (lasting: boolean) => (event: Event) => set(Number((event.target as HTMLInputElement).value), lasting);
  return html`<span class="slide"
    ><span aria-hidden="true">${label}</span
    ><input
      type="range"
      aria-label=${name}
      aria-valuetext=${said}
      min=${least}
      max=${most}
      step=${step}
      .value=${live(String(now))}
      @input=${give(false)}
      @change=${give(true)}
    /><output>${said}</output></span
  >`;
}
