// What a step shows: its matrices, and those that they are computed from.
import type { Section, Steps, Tensor } from "../explanation";
import { derive } from "./products";
import { cell_id, parse_cell, type Walk, walk_of_steps, type Window, window_of, windows_of, with_heads } from "./tensors";

// Of which a step shows one query at a time.
const kPerQuery = ["query", "scores", "logits", "weights", "log_sum_exp", "output"];

export interface Stage {
  section: Section;
  before: Window[]; // what the step is computed from
  now: Window[];
}

const walks = new WeakMap<Steps, Walk>();
export function walk_of(steps: Steps): Walk {
  const walk = walks.get(steps) ?? walk_of_steps(steps);
  walks.set(steps, walk);
  return walk;
}

// The tensors that the numbers of this one are computed from.
function sources(walk: Walk, window: Window): Tensor[] {
  const derivation = derive(walk, { name: window.tensor.name, index: window.index(0, 0) });
  const names = new Set(derivation?.terms.flatMap((term) => term.from.map((id) => parse_cell(id)?.name ?? "")));
  return [...names].flatMap((name) => walk.tensors.get(name) ?? []);
}

// Steps 4 to 7 of one head are about one query.
export function about_one_query(walk: Walk, section: Section): boolean {
  return !walk.tensors.has("heads") && section.number >= 4 && section.number <= 7;
}

export function queries_of(walk: Walk): number {
  return walk.tensors.size("query", -2);
}

export function stage_of(walk: Walk, section: Section, query: number): Stage {
  const one = about_one_query(walk, section);
  const of_query = walk.tensors.get("query")?.rows[query] ?? `query ${query + 1}`;
  const shown = (tensor: Tensor): Window[] => {
    if (tensor.name === "weighted_values")
      return [window_of(tensor, [query], one ? tensor.name : `${tensor.name}, ${of_query}`)];
    if (one && kPerQuery.includes(tensor.name)) {
      const name = tensor.rows[query] ?? of_query;
      return [window_of(tensor, [query], tensor.shape.length === 3 ? name : `${tensor.name}, ${name}`)];
    }
    return windows_of(tensor, (i) => `head ${i + 1}`).map((window) => with_heads(window, walk));
  };
  // "logits of input 1" is a row of logits, if these are there.
  const whole = (tensor: Tensor): Tensor => {
    const name = / of /.test(tensor.name) && one ? tensor.name.replace(/ of .*$/s, "") : tensor.name;
    return walk.tensors.has(name) ? (walk.tensors.get(name) as Tensor) : tensor;
  };
  const own = [...new Set(section.blocks.flatMap((block) => block.tensors.map(whole)))];
  const now = own.flatMap(shown);
  const known = new Set(own);
  const before: Window[] = [];
  for (const window of now) {
    for (const tensor of sources(walk, window)) {
      if (known.has(tensor)) continue;
      known.add(tensor);
      before.push(...shown(tensor));
    }
  }
  return { section, before, now };
}

// The number that is chosen where the reader chose none: the first of the last matrix that is computed.
export function first_choice(walk: Walk, stage: Stage): string {
  const computed = stage.now.filter(
    (window) =>
      window.height * window.width > 0 && derive(walk, { name: window.tensor.name, index: window.index(0, 0) }),
  );
  const window = stage.section.number <= 3 ? (computed[0] ?? stage.now[0]) : (computed.at(-1) ?? stage.now[0]);
  return window ? cell_id(window.tensor.name, window.index(0, 0)) : "";
}

// The words of a step about another query than the first are the page's own.
export function title_of(walk: Walk, section: Section, query: number): string {
  const name = walk.tensors.get("inputs")?.rows[query] ?? `input ${query + 1}`;
  const own: Record<number, string> = {
    4: `Scores for ${name}`,
    5: `Softmax for ${name}`,
    6: `Weights times values for ${name}`,
    7: `Sum to output ${query + 1}`,
  };
  return query > 0 && about_one_query(walk, section) ? (own[section.number] ?? section.title) : section.title;
}

// How the scores are made, what hides keys, what was put in.
export const facts_of = (steps: Steps): string[] => [
  `score ${steps.score}${steps.scale === 1 ? "" : `, x ${String(Number(steps.scale.toFixed(5)))}`}`,
  ...(steps.substituted.includes("weights") ? [] : (steps.mask?.rules.map((rule) => `mask: ${rule}`) ?? [])),
  ...(steps.substituted.length > 0 ? [`put in: ${steps.substituted.join(", ")}`] : []),
];
