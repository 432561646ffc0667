// Two runs: which one stands beside this one, and whether one of both or their difference is shown.
import { html, nothing, type TemplateResult } from "lit-html";
import { kRuns, type RunShown } from "../address";
import { legend } from "../legend";
import type { Explanation, Report } from "../explanation";
import type { Live } from "../live/live";
import { short } from "../heads/map";
import { number_text } from "../numbers";
import type { Screen } from "../screen";
import { facts_of } from "../steps/stage";

const kNames: Record<RunShown, string> = { this: "This run", other: "Before", difference: "Difference" };

// Of the kind of this one; the last of them stands beside it unless the address names another.
export function others_of(report: Report, explanation: Explanation, live: Live | null): Explanation[] {
  const before = live?.before(explanation) ?? null;
  const kept = report.beside.filter((one) => one.kind === explanation.kind);
  return before ? [...kept, before] : kept;
}

// What tells runs of one kind apart.
function said(one: Explanation): string {
  if (one.kind === "steps") return facts_of(one).join(", ");
  return one.kind === "heads" ? one.title.replace(/^What the heads attend to:? /, "") : one.title;
}

function beside(others: readonly Explanation[], other: Explanation, start: Explanation | null, screen: Screen): TemplateResult {
  const name = (one: Explanation, longest: number): string =>
    one === start ? "nothing changed" : short(said(one), longest);
  if (others.length === 1) return html`<span class="fact">before: <bdi>${name(other, 200)}</bdi></span>`;
  return html`<label
    >Beside
    <select @change=${(event: Event) => screen.go({ beside: Number((event.target as HTMLSelectElement).value) })}>
      ${others.map(
        (one, i) =>
          html`<option value=${i} ?selected=${one === other}>
            ${i + 1}: ${name(one, 60)}
          </option>`,
      )}
    </select></label
  >`;
}

export function runs_bar(
  explanation: Explanation,
  others: readonly Explanation[],
  other: Explanation | null,
  screen: Screen,
): TemplateResult | typeof nothing {
  const { live, address } = screen;
  if (!other && !live) return nothing;
  return html`<div class="bar-of-tools runs" role="group" aria-label="Two runs">
    ${other
      ? html`<span class="choices" role="group" aria-label="Which run is shown">
            ${kRuns.map(
              (run) =>
                html`<button class="plain" aria-pressed=${run === address.run} @click=${() => screen.go({ run })}>
                  ${kNames[run]}
                </button>`,
            )}
          </span>
          ${live ? nothing : html`<span class="fact">this run: <bdi>${said(explanation)}</bdi></span>`}
          ${beside(others, other, live?.before(explanation) ?? null, screen)}`
      : nothing}
    ${live
      ? html`<button
          class="plain"
          @click=${() => screen.go({ beside: live.keep(explanation), run: address.run === "other" ? "this" : address.run })}
        >
          Compare
        </button>
        ${other ? nothing : html`<span class="fact">keeps this run: the next change is shown beside it</span>`}`
      : nothing}
  </div>`;
}

// The scale of differences, whose strongest colours stand for `most` to either side.
export function change_legend(most: number, screen: Screen): TemplateResult {
  const { less, paper, more } = screen.colors;
  return legend([less, paper, more], `-${number_text(most, 3)}`, `+${number_text(most, 3)}`, "this run less the one before");
}

export const cannot = (lines: readonly string[]): TemplateResult[] =>
  [...new Set(lines)].filter((line) => line !== "").map((line) => html`<p class="hint cannot">${line}</p>`);
