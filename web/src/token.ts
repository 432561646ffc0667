// One token: what it owes to each key and each head, by several measures, and how alike they rank.
import { html, nothing, type TemplateResult } from "lit-html";
import { type Measured, type Token } from "./explanation";
import { change_text, largest, number_text, signed_text } from "./numbers";
import { difference_of, same_names } from "./runs/difference";
import { cannot } from "./runs/runs";
import { table_of } from "./save";
import type { Screen, Shown } from "./screen";
import { source_line } from "./translation";
import { kTokenSaid, type MeasureTable, tables_of, token_picture } from "./token_picture";

function cell(one: Measured, i: number, most: number, changes: boolean): TemplateResult {
  const value = one.values[i] as number;
  const part = Math.min(1, Math.abs(value) / (most || 1));
  const sign = changes ? (value < 0 ? "less" : "more") : value < 0 ? "below" : "";
  return html`<td>
    ${changes ? signed_text(number_text(value, 4), value) : number_text(value, 4)}<span class="meter" aria-hidden="true"
      ><i class=${sign} .style=${`--part:${Number.isFinite(part) ? part : 0}`}></i
    ></span>
  </td>`;
}

function table({ caption, names, measures, changes }: MeasureTable): TemplateResult {
  const most = measures.map((one) => largest(one.values));
  const ranked = !changes && measures.some((one) => one.measure === "knock_out");
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
              ${measures.map((one, m) => cell(one, i, most[m] as number, changes))}
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
  "Knock-out: by how much it falls if a key is hidden from every query in all layers, or a head gives 0.";
const kReads =
  "Knock-out: by how much the cosine of its last vector to what it was falls below 1 if a key is hidden from every query in all layers, or a head gives 0.";

const value_of = (token: Token): number | null => token.log_probability ?? token.score;

const said_of = (token: Token): string => (token.score === null ? "log-probability" : "score");

// The words that it came from, the darker the more; those that spoke against it in the other colour.
function words_line({ words }: Token): TemplateResult | typeof nothing {
  const values = words?.measures.find((one) => one.measure === "knock_out")?.values;
  return words && values ? source_line(words.all, values, largest(values)) : nothing;
}

// The measures that both have of the same keys or heads, less those of the other; of others both.
function less(ours: MeasureTable, theirs: MeasureTable | undefined): MeasureTable[] {
  if (!theirs) return [ours];
  if (!same_names(ours.names, theirs.names)) return [ours, { ...theirs, caption: `${theirs.caption}, the other run` }];
  const measures = ours.measures.flatMap((one) => {
    const other = theirs.measures.find(({ measure }) => measure === one.measure);
    return other ? [{ ...one, values: difference_of(one.values, other.values) }] : [];
  });
  return [{ ...ours, measures, changes: true }];
}

function two_tables(token: Token, other: Token): { tables: MeasureTable[]; lines: string[] } {
  const theirs = tables_of(other);
  const all = tables_of(token).map((ours) => less(ours, theirs.find((one) => one.caption === ours.caption)));
  const lines = all.flatMap((some) =>
    some[0]?.changes ? [] : [`${some[0]?.caption}: the other run has others, which cannot be subtracted.`],
  );
  return { tables: all.flat(), lines };
}

export function token_view(token: Token, screen: Screen): Shown {
  const name = token.tokens[token.token] as string;
  const other = screen.other?.kind === "token" ? screen.other : null;
  const { tables, lines } = other ? two_tables(token, other) : { tables: tables_of(token), lines: [] };
  const [value, value_there] = [value_of(token), other && value_of(other)];
  const of_other = other ? `token ${other.token}, ${other.tokens[other.token]}` : "";
  const [before, after] = token.words ? ["What", " came from"] : [`What token ${token.token},`, ", owes to each key and head"];
  const title = `${before} ${name}${after}`;
  const body = html`<section class="card" aria-label="Measures">
    <h2>${before} <bdi>${name}</bdi>${after}</h2>
    ${other
      ? html`<p class="hint">
          Less what <bdi>${of_other}</bdi> of the other run
          owes.${value !== null && value_there !== null
            ? html` Its ${said_of(token)} changed by
                <strong class="figure">${change_text(value, value_there, 4)}</strong>.`
            : nothing}
        </p>`
      : html`<p class="hint">
          ${value === null ? kReads : html`Its ${said_of(token)} is <span class="figure">${number_text(value, 4)}</span>. ${kWrites}`}
          Where a token looks is not yet what came of it: the last row says how alike a measure and knock-out rank.
        </p>`}
    ${other ? nothing : words_line(token)} ${cannot(lines)}
    ${tables.map(table)}
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
    picture: () => token_picture(tables, other ? `${title}, less the other run` : title, screen),
    command: (report) => report,
  };
}
