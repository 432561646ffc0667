// What the reader changed of the steps, as a link carries it: what differs from the sentence's own run, as JSON.
import { kScores } from "../explanation";
import { choice_of, count_of, flag_of, json_of, list_of, type Nested, null_or, number_of, object_of, refuse } from "../read/check";
import { is_given, json_of as written, kSubstitutable, type Setup } from "./setup";

const said = (values: Map<string, Nested> | [string, Nested][]): string =>
  `{${[...values].map(([name, all]) => `${JSON.stringify(name)}:${written(all)}`).join(",")}}`;

// "": nothing differs; null: a link cannot carry files of the reader's.
export function changes_text(setup: Setup, base: Setup): string | null {
  if (setup.files.size > 0) return null;
  const given = [...setup.matrices].filter(([name, values]) => {
    const before = base.matrices.get(name);
    return before === undefined || written(values) !== written(before);
  });
  const others = (["score", "scale", "causal", "window", "heads", "visible"] as const)
    .map((name) => [name, JSON.stringify(setup[name]), JSON.stringify(base[name])])
    .filter(([, now, then]) => now !== then);
  const parts = [
    ...(given.length > 0 ? [`"give":${said(given)}`] : []),
    ...(setup.substitutes.size > 0 ? [`"put":${said(setup.substitutes)}`] : []),
    ...others.map(([name, now]) => `"${name}":${now}`),
  ];
  return parts.length === 0 ? "" : `{${parts.join(",")}}`;
}

const numbers_of = (value: unknown, where: string): Nested =>
  Array.isArray(value) ? list_of(value, where, numbers_of) : number_of(value, where);

const matrices_of = (value: unknown, where: string, known: (name: string) => boolean): [string, Nested][] =>
  Object.entries(object_of(value ?? {}, where)).map(([name, values]) =>
    known(name) && Array.isArray(values) ? [name, numbers_of(values, name)] : refuse(`${where} holds no ${name}`),
  );

// The run of a link. Fault if it is broken.
export function setup_with(text: string, base: Setup): Setup {
  const setup = structuredClone(base);
  if (text === "") return setup;
  const changes = json_of(text, "the change");
  for (const [name, values] of matrices_of(changes.give, "give", is_given)) setup.matrices.set(name, values);
  for (const [name, values] of matrices_of(changes.put, "put", (one) => kSubstitutable.includes(one))) setup.substitutes.set(name, values);
  if (changes.score !== undefined) setup.score = choice_of(changes.score, "score", kScores);
  if (changes.scale !== undefined) setup.scale = null_or(changes.scale, "scale", number_of);
  if (changes.causal !== undefined) setup.causal = flag_of(changes.causal, "causal");
  if (changes.window !== undefined) setup.window = null_or(changes.window, "window", count_of);
  if (changes.heads !== undefined) setup.heads = count_of(changes.heads, "heads");
  if (changes.visible !== undefined) setup.visible = null_or(changes.visible, "visible", numbers_of) as number[][] | null;
  return setup;
}
