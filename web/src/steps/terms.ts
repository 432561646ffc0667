// The panel beside the matrices: the chosen number as the sum of its products.
import { html, nothing, type TemplateResult } from "lit-html";
import type { Piece } from "../explanation";
import { number_text } from "../numbers";
import { type Derivation, derive, shortened } from "./products";
import { parse_cell, type Walk } from "./tensors";
import { softmax_of } from "./softmax";
import { formula, type Term } from "./terms_of";

export const pieces = (line: readonly Piece[]): TemplateResult[] =>
  line.map(({ text, role }) =>
    role === "none" ? html`${text}` : html`<span class="role-${role} said">${text}</span>`,
  );

// A line of the engine's; one with decimals is a number's.
export const line_of = (line: readonly Piece[]): TemplateResult =>
  html`<p class=${line.some(({ text }) => /\d\.\d/.test(text)) ? "figure" : ""}>${pieces(line)}</p>`;

function row(term: Term, most: number): TemplateResult {
  const part = most > 0 && Number.isFinite(term.value) ? Math.abs(term.value) / most : 0;
  return html`<tr class="term" data-value=${term.value}>
    <th scope="row"><bdi>${term.label}</bdi></th>
    <td>${pieces(term.factors)}</td>
    <td class="product">${number_text(term.value)}</td>
    <td class="bar ${term.value < 0 ? "minus" : ""}" aria-hidden="true">
      <i .style=${`--part:${part.toFixed(3)}`}></i>
    </td>
  </tr>`;
}

function sums(derivation: Derivation, value: number): TemplateResult {
  const { terms, sum, then, rest } = derivation;
  return html` ${rest !== 0
    ? html`<tr>
        <th scope="row">what is not shown</th>
        <td></td>
        <td class="product">${number_text(rest)}</td>
        <td></td>
      </tr>`
    : nothing}
  ${terms.length > 1 || then.length > 0
    ? html`<tr class="sum">
        <th scope="row">sum${then}</th>
        <td>${then.length > 0 ? number_text(sum) : nothing}</td>
        <td class="product">${number_text(value)}</td>
        <td></td>
      </tr>`
    : nothing}`;
}

const kShare = formula("weight = exp(logit) / sum of all exp(logit) of the row");

const folded = (summary: string | null, body: TemplateResult): TemplateResult =>
  summary === null ? body : html`<details><summary>${summary}</summary>${body}</details>`;

export function terms_panel(walk: Walk, chosen: string): TemplateResult {
  const cell = parse_cell(chosen);
  const tensor = cell ? walk.tensors.get(cell.name) : undefined;
  if (!cell || !tensor || !walk.tensors.holds(cell)) {
    return html`<section class="panel" aria-label="Products">
      <p class="hint">Choose a number to see what it is made of.</p>
    </section>`;
  }
  const value = walk.tensors.at(cell.name, ...cell.index);
  const derivation = derive(walk, cell);
  const named = tensor.rows[cell.index[tensor.shape.length === 1 ? 0 : tensor.shape.length - 2] as number];
  const column = cell.index.at(-1) as number;
  const place =
    tensor.shape.length === 1
      ? (named ?? `number ${column + 1}`)
      : `${named ?? `row ${(cell.index.at(-2) as number) + 1}`}, ${tensor.columns[column] ?? `number ${column + 1}`}`;
  const head =
    tensor.shape.length === 3 && cell.name !== "weighted_values" ? `head ${(cell.index[0] as number) + 1}, ` : "";
  const { shown, others, rest } = shortened(derivation?.terms ?? []);
  const whole = softmax_of(walk, cell);
  const most = Math.max(0, ...shown.map((term) => Math.abs(term.value)).filter(Number.isFinite));
  return html`<section class="panel role-${tensor.role}" data-cell=${chosen} aria-label="Products" aria-live="polite">
    <h3><span class="what">${cell.name}</span> <bdi class="where">${head}${place}</bdi></h3>
    <p class="value figure">${number_text(value)}</p>
    ${derivation === null
      ? html`<p class="hint">
          ${tensor.substituted
            ? "Put in by hand, not computed."
            : cell.name.startsWith("true ")
              ? "What it would be if nothing were put in."
              : "Given, not computed."}
        </p>`
      : html`<p class="formula">${pieces(whole !== nothing && cell.name === "weights" ? kShare : derivation.formula)}</p>
          ${derivation.note ? html`<p class="note">${derivation.note}</p>` : nothing} ${whole}
          ${folded(whole === nothing ? null : "With log_sum_exp, as the kernel computes it", html`<div class="scroll" tabindex="0" role="group" aria-label="Products that are added">
            <table class="terms">
              <tbody>
                ${shown.map((term) => row(term, most))}
                ${others > 0
                  ? html`<tr class="others" data-value=${rest}>
                      <th scope="row">${others} others</th>
                      <td></td>
                      <td class="product">${number_text(rest)}</td>
                      <td></td>
                    </tr>`
                  : nothing}
                ${sums(derivation, value)}
              </tbody>
            </table>
          </div>`)}`}
  </section>`;
}
