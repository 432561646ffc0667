// What plan() says of the call of attention behind a view, folded until it is asked for.
import { html, nothing, type TemplateResult } from "lit-html";
import type { Attention, Cost } from "./explanation";
import { counted, whole } from "./numbers";
import type { Table } from "./save";

// Of several calls each has a name.
export interface NamedCost {
  name: string;
  cost: Cost;
}

export const costs_of = (attentions: readonly Attention[]): NamedCost[] =>
  attentions.flatMap(({ title, cost }) => (cost ? [{ name: attentions.length > 1 ? title : "", cost }] : []));

// Name, value; in the words of `qkv plan`.
function lines_of({ cost }: NamedCost): [string, string][] {
  const precision = cost.precision === "reduced" ? ", in bf16" : "";
  return [
    ["operations", whole(cost.operations)],
    ["inputs and outputs", counted(cost.bytes, "byte")],
    ["memory besides", counted(cost.workspace, "byte")],
    ["threads with work", whole(cost.threads)],
    ["tiles", `${whole(cost.tiles)}, ${whole(cost.skipped_tiles)} skipped: masks hide them whole`],
    ["kernel", `${cost.kernel} on ${cost.target}${precision}`],
    ...cost.remarks.map((remark): [string, string] => ["because", remark]),
  ];
}

function one_cost(named: NamedCost): TemplateResult {
  return html`<table class="cost">
    ${named.name === "" ? nothing : html`<caption><bdi>${named.name}</bdi></caption>`}
    <tbody>
      ${lines_of(named).map(
        ([name, value]) =>
          html`<tr>
            <th scope="row">${name}</th>
            <td>${value}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

export function cost_panel(costs: readonly NamedCost[]): TemplateResult | typeof nothing {
  const [first] = costs;
  if (!first) return nothing;
  const { cost } = first;
  const brief = `${whole(cost.operations)} operations, ${counted(cost.threads, "thread")}`;
  return html`<details class="card costs">
    <summary>What ${costs.length === 1 ? `the call costs: ${brief}` : "the calls cost"}</summary>
    <p class="hint">As plan() says, before anything runs: a call of attention with these sizes and this mask.</p>
    <div class="matrices">${costs.map(one_cost)}</div>
  </details>`;
}

// Every member, in full.
export function cost_tables(costs: readonly NamedCost[]): Table[] {
  return costs.map(({ name, cost }) => ({
    title: "cost",
    lines: [
      [`cost${name === "" ? "" : ` of ${name}`}`, "value"],
      ...Object.entries(cost).flatMap(([member, value]) =>
        Array.isArray(value) ? value.map((remark) => [member, String(remark)]) : [[member, String(value)]],
      ),
    ],
  }));
}
