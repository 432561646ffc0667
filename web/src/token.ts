// One token: what it owes to each key and each head, by several measures, and how alike they rank.
import { html, nothing, type TemplateResult } from "lit-html";
import { type Measured, type Token } from "./explanation";
import { largest, number_text } from "./numbers";
import { table_of } from "./save";
import type { Screen, Shown } from "./screen";
import { kTokenSaid, tables_of, token_picture } from "./token_picture";

function cell(one: Measured, i: number, most: number): TemplateResult {
  const value = one.values[i] as number;
  const part = Math.min(1, Math.abs(value) / (most || 1));
  return html`<td>
    ${number_text(value, 4)}<span class="meter" aria-hidden="true"
      ><i class=${value < 0 ? "below" : ""} .style=${`--part:${Number.isFinite(part) ? part : 0}`}></i
    ></span>
  </td>`;
}

function table(caption: string, names: readonly string[], measures: readonly Measured[]): TemplateResult {
  const most = measures.map((one) => largest(one.values));
  const ranked = measures.some((one) => one.measure === "knock_out");
  return html`<div class="wide-table" tabindex="0" role="region" aria-label=${caption}>
    <table class="measures of-token">
      <caption>
        ${caption}
      </caption>
      <thead>
        <tr>
          <td></td>
          ${measures.map((one) => html`<th scope="col">${kTokenSaid[one.measure]}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${names.map(
          (name, i) =>
            html`<tr>
              <th scope="row"><bdi>${name}</bdi></th>
              ${measures.map((one, m) => cell(one, i, most[m] as number))}
            </tr>`,
        )}
      </tbody>
      ${ranked
        ? html`<tfoot>
            <tr>
              <th scope="row">ranks as knock-out</th>
              ${measures.map(
                (one) =>
                  html`<td>
                    ${one.measure === "knock_out" || one.rank_correlation === null
                      ? "-"
                      : number_text(one.rank_correlation, 2)}
                  </td>`,
              )}
            </tr>
          </tfoot>`
        : nothing}
    </table>
  </div>`;
}

const kWrites =
  "Knock-out: by how much its log-probability falls if a key is hidden from every query in all layers, or a head gives 0.";
const kReads =
  "Knock-out: by how much the cosine of its last vector to what it was falls below 1 if a key is hidden from every query in all layers, or a head gives 0.";

export function token_view(token: Token, screen: Screen): Shown {
  const name = token.tokens[token.token] as string;
  const tables = tables_of(token);
  const title = `What token ${token.token}, ${name}, owes to each key and head`;
  const body = html`<section class="card" aria-label="Measures">
    <h2>What token ${token.token}, <bdi>${name}</bdi>, owes to each key and head</h2>
    <p class="hint">
      ${token.log_probability === null ? kReads : html`Its log-probability is ${number_text(token.log_probability, 4)}. ${kWrites}`}
      Where a token looks is not yet what came of it: the last row says how alike a measure and knock-out rank.
    </p>
    ${tables.map((one) => table(one.caption, one.names, one.measures))}
  </section>`;
  return {
    body,
    name: `token-${token.token}`,
    tables: () =>
      tables.map(({ caption, names, measures }) =>
        table_of(
          caption,
          names,
          measures.map((one) => one.measure),
          names.length,
          measures.length,
          (r, c) => (measures[c] as Measured).values[r] as number,
        ),
      ),
    picture: () => token_picture(token, title, screen),
    command: (report) => report,
  };
}
