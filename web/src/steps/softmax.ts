// Softmax of one row whole: the exponentials as bars, their sum, and the share of each.
import { html, nothing, type TemplateResult } from "lit-html";
import { number_text } from "../numbers";
import { type Cell, type Walk } from "./tensors";

const kMost = 16; // keys

export interface Exps {
  logits: number[];
  less: number; // that is taken from each logit: exp of more than 30 has too many digits to be read; the shares are the same
  exps: number[];
  sum: number;
}

// Of a row of logits; null: all of them are hidden, or one is infinite.
export function exps_of({ tensors }: Walk, lead: readonly number[]): Exps | null {
  const logits = Array.from({ length: tensors.size("logits", -1) }, (_, k) => tensors.at("logits", ...lead, k));
  const most = Math.max(...logits);
  if (!Number.isFinite(most)) return null;
  const less = most > 30 ? most : 0;
  const exps = logits.map((logit) => Math.exp(logit - less));
  return { logits, less, exps, sum: exps.reduce((total, one) => total + one, 0) };
}

export function softmax_of(walk: Walk, { name, index }: Cell): TemplateResult | typeof nothing {
  const { tensors } = walk;
  const lead = name === "weights" ? index.slice(0, -1) : name === "log_sum_exp" ? index : null;
  const n = tensors.size("logits", -1);
  if (!lead || n === 0 || n > kMost || tensors.get("weights")?.substituted) return nothing;
  const row = exps_of(walk, lead);
  if (!row) return nothing;
  const { logits, less, exps, sum } = row;
  const entropy = exps.reduce((total, one) => total - (one > 0 ? (one / sum) * Math.log(one / sum) : 0), 0);
  const names = tensors.get("logits")?.columns ?? [];
  const chosen = name === "weights" ? (index.at(-1) as number) : -1;
  const bar = (part: number): TemplateResult => html`<td class="bar" aria-hidden="true"><i .style=${`--part:${part.toFixed(3)}`}></i></td>`;
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Softmax of the row">
    <table class="terms softmax">
      <caption>${less === 0 ? "Each exp(logit), their sum, and its share of it" : `Each exp(logit - ${number_text(less, 3)}), the largest logit: the shares are the same`}</caption>
      <tbody>
        ${exps.map(
          (one, k) =>
            html`<tr class=${k === chosen ? "now" : ""}>
              <th scope="row"><bdi>${names[k] ?? `key ${k + 1}`}</bdi></th>
              <td>exp(${number_text((logits[k] as number) - less, 3)})</td>
              <td>${number_text(one, 3)}</td>
              ${bar(one / Math.max(...exps))}
              <td><span class="by">/ ${number_text(sum, 3)} = </span>${number_text(one / sum)}</td>
            </tr>`,
        )}
        <tr class="sum">
          <th scope="row">sum</th>
          <td></td>
          <td>${number_text(sum, 3)}</td>
          <td></td>
          <td>1</td>
        </tr>
      </tbody>
    </table>
    <p class="hint figure">Spread over exp(entropy) = ${number_text(Math.exp(entropy), 2)} of ${n} keys.</p>
  </div>`;
}
