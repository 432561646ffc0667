// What explanations of several kinds hold, read and checked.
import * as check from "./check";
import type { Json } from "./check";
import { type Common, kMeasures, type Summary } from "./explanation";

export function common_of(value: Json): Common {
  return {
    title: check.text_of(value.title, "title"),
    version: check.text_of(value.version, "version"),
    target: check.text_of(value.target, "target"),
    dtype: check.choice_of(value.dtype, "dtype", ["f32", "f64"]),
  };
}

export function summary_of(value: unknown, where: string): Summary {
  const object = check.object_of(value, where);
  const measures = kMeasures.map((name) => [name, check.number_of(object[name], `${where}.${name}`)] as const);
  return Object.fromEntries(measures) as Summary;
}
