// What explanations of several kinds hold, read and checked.
import * as check from "./check";
import type { Json } from "./check";
import { type Common, type Cost, kMeasures, type Summary } from "../explanation";

export function common_of(value: Json): Common {
  return {
    title: check.text_of(value.title, "title"),
    version: check.text_of(value.version, "version"),
    target: check.text_of(value.target, "target"),
    dtype: check.choice_of(value.dtype, "dtype", ["f32", "f64"]),
    cut: check.count_of(value.cut ?? 0, "cut"),
  };
}

export function summary_of(value: unknown, where: string): Summary {
  const object = check.object_of(value, where);
  const measures = kMeasures.map((name) => [name, check.number_of(object[name], `${where}.${name}`)] as const);
  return Object.fromEntries(measures) as Summary;
}

// Reports from before plan() was asked have none.
export function cost_of(value: unknown): Cost | null {
  return check.null_or(value, "cost", (cost, where) => {
    const object = check.object_of(cost, where);
    const text = (name: string): string => check.text_of(object[name], `${where}.${name}`);
    const number = (name: string): number => check.number_of(object[name], `${where}.${name}`);
    return {
      kernel: text("kernel"),
      target: text("target"),
      precision: text("precision"),
      threads: number("threads"),
      tiles: number("tiles"),
      skipped_tiles: number("skipped_tiles"),
      operations: number("operations"),
      bytes: number("bytes"),
      workspace: number("workspace"),
      remarks: check.texts_of(object.remarks, `${where}.remarks`),
    };
  });
}
