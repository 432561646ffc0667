// Lines of several heads in one picture, a colour for each; the one that is pointed at stands out.
import { html, nothing, type TemplateResult } from "lit-html";
import { css, type Rgb } from "../colors";
import type { Attention, HeadEntry, Role } from "../explanation";
import type { Screen } from "../screen";

const kColors: readonly Role[] = ["weight", "query", "value", "key", "input", "score", "none", "output"];

export interface HeadLines {
  id: string;
  weights: number[][];
  color: Rgb;
  faded: boolean;
  point(on: boolean): void;
}

export const id_of = (head: HeadEntry): string => `${head.layer}.${head.head}`;

let pointed = ""; // the head

// The head itself, and those that the reader added.
export function lines_of(attention: Attention, head: HeadEntry, screen: Screen): HeadLines[] {
  const ids = [...new Set([id_of(head), ...screen.address.lines.split(",")])];
  const all = ids.flatMap((id) => attention.all.filter((one) => id_of(one) === id && one.weights)).slice(0, kColors.length);
  const stands_out = all.some((one) => id_of(one) === pointed);
  return all.map((one, k) => ({
    id: id_of(one),
    weights: one.weights as number[][],
    color: screen.colors.roles[kColors[k] as Role],
    faded: stands_out && id_of(one) !== pointed,
    point: (on) => {
      pointed = on ? id_of(one) : "";
      screen.go({}, false);
    },
  }));
}

// The heads of the layer, and those of others that were added: a button for each.
export function lines_choice(attention: Attention, head: HeadEntry, lines: readonly HeadLines[], screen: Screen): TemplateResult {
  const own = id_of(head);
  const added = lines.map(({ id }) => id).filter((id) => id !== own);
  const of_layer = attention.all.filter((one) => one.layer === head.layer).map(id_of);
  const go = (ids: readonly string[]) => () => screen.go({ lines: ids.filter((id) => id !== own).join(",") });
  const one = (id: string): TemplateResult => {
    const now = lines.find((those) => those.id === id);
    return html`<button
      class="plain"
      aria-pressed=${now !== undefined}
      .style=${now ? `--role:${css(now.color)}` : ""}
      ?disabled=${id === own || (!now && lines.length === kColors.length)}
      @click=${go(now ? added.filter((other) => other !== id) : [...added, id])}
      @pointerenter=${() => now?.point(true)}
      @pointerleave=${() => now?.point(false)}
      @focus=${() => now?.point(true)}
      @blur=${() => now?.point(false)}
    >
      ${now ? html`<i class="swatch" ></i>` : nothing}${id}
    </button>`;
  };
  return html`<div class="choices lines-of-heads" role="group" aria-label="Heads whose lines are shown">
    ${[...new Set([...of_layer, ...added])].map(one)}
    <button class="plain" @click=${go(added.length > 0 ? [] : of_layer)}>${added.length > 0 ? "This head alone" : "All of its layer"}</button>
  </div>`;
}
