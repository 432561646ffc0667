// The measures of one token, read and checked.
import * as check from "./check";
import type { Json } from "./check";
import { kTokenMeasures, type Measured, type Token } from "../explanation";
import { common_of } from "./read_common";

function measured_of(value: unknown, where: string, count: number): Measured[] {
  return check.list_of(value, where, (one, at) => {
    const object = check.object_of(one, at);
    return {
      measure: check.choice_of(object.measure, `${at}.measure`, kTokenMeasures),
      values: check.vector_of(object.values, `${at}.values`, count),
      rank_correlation: check.null_or(object.rank_correlation, `${at}.rank_correlation`, check.number_of),
    };
  });
}

// Of what a model's head said.
function output_of(value: Json): Pick<Token, "score" | "words"> {
  if (value.words === undefined) return { score: null, words: null };
  const words = check.object_of(value.words, "words");
  const all = check.texts_of(words.all, "words.all");
  return {
    score: value.score === undefined ? null : check.number_of(value.score, "score"),
    words: { all, measures: measured_of(words.measures, "words.measures", all.length) },
  };
}

export function token_of(value: Json): Token {
  const tokens = check.texts_of(value.tokens, "tokens");
  const token = check.count_of(value.token, "token");
  if (token >= tokens.length) check.refuse("token must be one of tokens");
  const heads = check.object_of(value.heads, "heads");
  const all = check.list_of(heads.all, "heads.all", (one, at) => {
    const place = check.object_of(one, at);
    return {
      attention: check.text_of(place.attention, `${at}.attention`),
      layer: check.count_of(place.layer, `${at}.layer`),
      head: check.count_of(place.head, `${at}.head`),
    };
  });
  return {
    kind: "token",
    ...common_of(value),
    input: check.text_of(value.input, "input"),
    tokens,
    token,
    log_probability: check.null_or(value.log_probability, "log_probability", check.number_of),
    keys: check.list_of(value.keys, "keys", (one, at) => {
      const keys = check.object_of(one, at);
      const names = check.texts_of(keys.tokens, `${at}.tokens`);
      return {
        attention: check.text_of(keys.attention, `${at}.attention`),
        tokens: names,
        measures: measured_of(keys.measures, `${at}.measures`, names.length),
      };
    }),
    heads: { all, measures: measured_of(heads.measures, "heads.measures", all.length) },
    ...output_of(value),
  };
}

// The heads of a run get what this token says of them.
export function give_measures(token: Token, heads: { attentions: { name: string; all: HeadPlace[] }[] }): void {
  token.heads.all.forEach((place, i) => {
    const attention = heads.attentions.find((one) => one.name === place.attention);
    const head = attention?.all.find((one) => one.layer === place.layer && one.head === place.head);
    for (const one of token.heads.measures) {
      if (head && one.measure !== "value_norm") head.more[one.measure] = one.values[i] as number;
    }
  });
}

interface HeadPlace {
  layer: number;
  head: number;
  more: Partial<Record<Measured["measure"], number>>;
}
