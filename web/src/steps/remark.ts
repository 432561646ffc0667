// What is said between the steps, as a page has it: roles as a list, who attends to whom as bars, results side by side.
import { html, nothing, type TemplateResult } from "lit-html";
import type { Block, Piece, Section } from "../explanation";
import { share_text } from "../numbers";
import { matrix, type MatrixUse } from "./matrices";
import { type Walk, windows_of } from "./tensors";
import { line_of, pieces } from "./terms";

const text_of = (line: readonly Piece[]): string => line.map(({ text }) => text).join("");

// A role, what it says, what it is: columns of a terminal.
const kRole = /^(query|key|value) +("[^"]*") +(.*)$/;

function prose(line: readonly Piece[]): TemplateResult {
  const [, role, said, about] = kRole.exec(text_of(line)) ?? [];
  if (role) return html`<p class="role-line role-${role}"><strong class="said">${role}</strong> <em>${said}</em> ${about}</p>`;
  return /^ {2}/.test(text_of(line)) ? html`<div class="lines scroll" tabindex="0" role="group" aria-label="Command">${line_of(line)}</div>` : html`<p class=${line.some(({ text }) => /\d\.\d/.test(text)) ? "figure" : ""}>${pieces(line)}</p>`;
}

// A bar for each query, as long as all its weights: the part of each key.
function attending(walk: Walk): TemplateResult {
  const { tensors } = walk;
  const [n, m] = [tensors.size("weights", 0), tensors.size("weights", 1)];
  const names = tensors.get("inputs")?.rows ?? [];
  const key = (j: number): string => names[j] ?? `key ${j + 1}`;
  const part = (i: number, j: number): TemplateResult => {
    const weight = tensors.at("weights", i, j);
    return html`<span class="share" .style=${`--part:${Number.isFinite(weight) ? Math.max(0, Math.min(1, weight)).toFixed(3) : 0}`}
      ><bdi>${key(j)}</bdi> <span class="figure">${share_text(weight)}</span></span
    >`;
  };
  return html`<ul class="attending">
    ${Array.from({ length: n }, (_, i) => {
      const order = Array.from({ length: m }, (_x, j) => j).sort((a, b) => tensors.at("weights", i, b) - tensors.at("weights", i, a));
      return html`<li><strong class="role-input said"><bdi>${key(i)}</bdi></strong> <span>attends to</span> ${order.map((j) => part(i, j))}</li>`;
    })}
  </ul>`;
}

export function remark(section: Section, walk: Walk, use: MatrixUse): TemplateResult {
  const drawn = ({ tensors }: Block): TemplateResult[] =>
    tensors.flatMap((tensor) => windows_of(tensor, (i) => `head ${i + 1}`)).map((window) => matrix(window, use));
  const whom = section.title === "Who attends to whom" && walk.tensors.size("weights", 0) <= 8 && !walk.tensors.has("heads");
  return html`<section class="remark">
    <h3>${section.title}</h3>
    <div class=${section.blocks.filter(({ tensors }) => tensors.length > 0).length > 1 ? "ways-side" : ""}>
      ${whom
        ? attending(walk)
        : section.blocks.map(
            (block) =>
              html`<div>
                ${block.lines.map(prose)}${block.tensors.length > 0 ? html`<div class="matrices">${drawn(block)}</div>` : nothing}
              </div>`,
          )}
    </div>
  </section>`;
}
