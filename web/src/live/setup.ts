// What the reader changed of an explanation of steps, and the command that computes it so.
import type { Score, Steps, Tensor } from "../explanation";
import type { Nested } from "../read/check";

export interface Setup {
  matrices: Map<string, Nested>; // by the name of the tensor: what is given
  files: Map<string, string>; // by the same names: files that are read instead
  substitutes: Map<string, Nested>; // intermediates that are put in
  score: Score;
  scale: number | null; // null: that of the score
  causal: boolean;
  window: number | null; // keys to each side that a query sees; null: all
  heads: number; // 0: attention without heads
  visible: number[][] | null; // 1 where a query may see a key; null: everything
}

// The option of `qkv explain` that gives a tensor.
const kGiven: Record<string, string> = {
  inputs: "--input",
  w_embed: "--w-embed",
  w_query: "--w-query",
  w_key: "--w-key",
  w_value: "--w-value",
  b_query: "--b-query",
  b_key: "--b-key",
  b_value: "--b-value",
  w_out: "--w-out",
  b_out: "--b-out",
  mask: "--mask",
};
export const kSubstitutable = ["embedded", "query", "key", "value", "scores", "logits", "weights"];

export const given_names = Object.keys(kGiven);
export const is_given = (name: string): boolean => name in kGiven;

// What a change of a number of this tensor does.
export function way_to_change(name: string, setup: Setup): "give" | "put in" | null {
  if (is_given(name)) return "give";
  return setup.heads === 0 && kSubstitutable.includes(name) ? "put in" : null;
}

function tensors_of(steps: Steps): Tensor[] {
  return steps.sections.flatMap((section) => section.blocks.flatMap((block) => block.tensors));
}

export function setup_of(steps: Steps): Setup {
  const tensors = tensors_of(steps);
  const given = tensors.filter((one) => is_given(one.name) && one.values !== null);
  const heads = tensors.find((one) => one.name === "heads");
  const visible = steps.mask?.hidden?.map((row) => row.map((rule) => (rule === 0 ? 1 : 0))) ?? null;
  return {
    matrices: new Map(given.map((one) => [one.name, one.values as Nested])),
    files: new Map(),
    substitutes: new Map(
      tensors
        .filter((one) => one.substituted && one.values !== null && kSubstitutable.includes(one.name))
        .map((one) => [one.name, one.values as Nested]),
    ),
    score: steps.score,
    scale: steps.scale === 1 && steps.score !== "scaled-dot" ? null : steps.scale,
    causal: false,
    window: null,
    heads: heads ? (heads.shape[0] as number) : 0,
    visible,
  };
}

// The numbers of a tensor with one of them changed.
export function with_number(values: Nested, index: readonly number[], value: number): Nested {
  const [first, ...rest] = index;
  if (first === undefined) return value as unknown as Nested;
  return (values as readonly Nested[]).map((one, i) => (i === first ? with_number(one, rest, value) : one)) as Nested;
}

// As the program reads numbers: JSON.stringify makes null of infinities and 0 of -0.
export function json_of(values: Nested): string {
  if (typeof values !== "number") return `[${values.map(json_of).join(",")}]`;
  if (Number.isFinite(values)) return Object.is(values, -0) ? "-0.0" : String(values);
  return Number.isNaN(values) ? '"nan"' : values > 0 ? '"inf"' : '"-inf"';
}

// The words after "qkv".
export function arguments_of(setup: Setup): string[] {
  const words = ["explain"];
  for (const [name, option] of Object.entries(kGiven)) {
    if (setup.heads === 0 && (name === "w_out" || name === "b_out")) continue;
    const file = setup.files.get(name);
    const values = setup.matrices.get(name);
    if (file !== undefined) words.push(option, file);
    else if (values !== undefined) words.push(option, json_of(values));
  }
  if (setup.heads > 0) words.push("--heads", String(setup.heads));
  else {
    words.push("--score", setup.score);
    if (setup.scale !== null) words.push("--scale", String(setup.scale));
    for (const [name, values] of setup.substitutes) words.push("--substitute", `${name}=${json_of(values)}`);
  }
  if (setup.causal) words.push("--causal", "top-left");
  if (setup.window !== null) words.push("--window", `${setup.window},${setup.window}`);
  if (setup.visible && !setup.files.has("mask")) words.push("--mask", json_of(setup.visible));
  return words;
}
