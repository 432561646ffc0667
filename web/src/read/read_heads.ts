// Every head of a model, read and checked.
import * as check from "./check";
import type { Json } from "./check";
import {
  type Attention,
  type Candidate,
  type HeadEntry,
  type Heads,
  kCopyMeasures,
  type LayerGuess,
  type LeftOut,
  type Sequence,
  type Sublayer,
  type Translation,
} from "../explanation";
import { beyond_mask } from "../heads/mask_alone";
import { common_of, cost_of, summary_of } from "./read_common";
import { head_map_of, tile_of } from "./read_maps";

function sequence_of(value: unknown, where: string): Sequence {
  const object = check.object_of(value, where);
  const tokens = check.texts_of(object.tokens, `${where}.tokens`);
  const words = check.texts_of(object.words, `${where}.words`);
  const word_of = check.vector_of(object.word_of, `${where}.word_of`, tokens.length);
  if (word_of.some((word) => word >= words.length)) check.refuse(`${where}.word_of names a word that is not there`);
  const special = check.list_of(object.special, `${where}.special`, check.flag_of);
  if (special.length !== tokens.length) check.refuse(`${where}.special must have one entry per token`);
  const [name, caption] = [
    check.text_of(object.name, `${where}.name`),
    check.text_of(object.caption, `${where}.caption`),
  ];
  return { name, caption, tokens, words, word_of, special };
}

function named(name: unknown, where: string, sequences: Sequence[]): Sequence {
  return sequences.find((one) => one.name === name) ?? check.refuse(`${where} must name a sequence`);
}

// Reports from before there was a map of the model do not say where a sublayer stands.
function sublayer_of(value: unknown, where: string, sequences: Sequence[]): Sublayer {
  const object = check.object_of(value, where);
  const sequence = named(object.sequence, `${where}.sequence`, sequences);
  return {
    name: check.text_of(object.name, `${where}.name`),
    part: check.text_of(object.part, `${where}.part`),
    sequence,
    size: check.vector_of(object.shape, `${where}.shape`, 2)[1] as number,
    lengths: check.vector_of(object.lengths, `${where}.lengths`, sequence.tokens.length),
    layer: check.null_or(object.layer, `${where}.layer`, check.count_of),
    attention: check.null_or(object.attention, `${where}.attention`, check.text_of),
  };
}

export function left_out_of(value: unknown, where: string): LeftOut {
  const object = check.object_of(value, where);
  return {
    heads: check.list_of(object.heads, `${where}.heads`, (one, at) => {
      const head = check.object_of(one, at);
      return {
        attention: check.text_of(head.attention, `${at}.attention`),
        layer: check.count_of(head.layer, `${at}.layer`),
        head: check.count_of(head.head, `${at}.head`),
      };
    }),
    keys: check.list_of(object.keys, `${where}.keys`, (one, at) => {
      const key = check.object_of(one, at);
      return {
        attention: check.text_of(key.attention, `${at}.attention`),
        key: check.count_of(key.key, `${at}.key`),
      };
    }),
  };
}

// Reports from before they were measured have none.
function more_of(head: Json, causal: boolean, at: string): HeadEntry["more"] {
  const names = ["value_norm", ...(causal ? kCopyMeasures : [])] as const;
  const given = names.filter((name) => head[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, check.number_of(head[name], `${at}.${name}`)]));
}

function attention_of(value: unknown, where: string, sequences: Sequence[], left_out: LeftOut): Attention {
  const object = check.object_of(value, where);
  const queries = named(object.queries, `${where}.queries`, sequences),
    keys = named(object.keys, `${where}.keys`, sequences);
  const causal = object.mask === "causal";
  const out = left_out.keys.filter((one) => one.attention === object.name).map(({ key }) => key);
  const entry = (one: unknown, at: string): HeadEntry => {
    const head = check.object_of(one, at);
    const weights = check.null_or(head.weights, `${at}.weights`, (rows, place) =>
      check.matrix_of(rows, place, queries.tokens.length, keys.tokens.length),
    );
    const beyond = weights && beyond_mask(weights, causal, out);
    return {
      layer: check.count_of(head.layer, `${at}.layer`),
      head: check.count_of(head.head, `${at}.head`),
      pattern: check.text_of(head.pattern, `${at}.pattern`),
      ...summary_of(head, at),
      more: { ...more_of(head, causal, at), ...(beyond === null ? {} : { beyond }) },
      weights,
      map: check.null_or(head.map, `${at}.map`, (map, place) => {
        const of = { queries: queries.tokens.length, keys: keys.tokens.length, tile: tile_of(map as Json), dtype: "f32" } as const;
        return { ...of, ...head_map_of(map, place, of) };
      }),
    };
  };
  const all = check.list_of(object.all, `${where}.all`, entry);
  if (all.length === 0) check.refuse(`${where}.all must have a head`);
  return {
    name: check.text_of(object.name, `${where}.name`),
    title: check.text_of(object.title, `${where}.title`),
    caption: check.text_of(object.caption, `${where}.caption`),
    layers: check.count_of(object.layers, `${where}.layers`),
    heads: check.count_of(object.heads, `${where}.heads`),
    mask: check.text_of(object.mask, `${where}.mask`),
    largest_entropy: check.number_of(object.largest_entropy, `${where}.largest_entropy`),
    cost: cost_of(object.cost),
    queries,
    keys,
    all,
  };
}

function candidate_of(value: unknown, where: string): Candidate {
  const object = check.object_of(value, where);
  return {
    token: check.text_of(object.token, `${where}.token`),
    probability: check.number_of(object.probability, `${where}.probability`),
  };
}

function guess_of(value: unknown, where: string): LayerGuess {
  return { ...candidate_of(value, where), written: check.number_of((value as Json).written, `${where}.written`) };
}

function translation_of(value: unknown, where: string): Translation {
  const object = check.object_of(value, where);
  const source_words = check.texts_of(object.source_words, `${where}.source_words`);
  const target_words = check.texts_of(object.target_words, `${where}.target_words`);
  return {
    continues: where === "continuation",
    source_text: check.text_of(object.source_text, `${where}.source_text`),
    target_text: check.text_of(object.target_text, `${where}.target_text`),
    source_words,
    target_words,
    // Reports from before knock-out have weights alone.
    word_alignment: check.null_or(object.word_alignment ?? object.word_weights, `${where}.word_alignment`, (weights, at) =>
      check.matrix_of(weights, at, target_words.length, source_words.length),
    ),
    written: check.list_of(object.written, `${where}.written`, (entry, at) => ({
      ...candidate_of(entry, at),
      candidates: check.list_of(check.object_of(entry, at).candidates, `${at}.candidates`, candidate_of),
      layers: check.list_of(check.object_of(entry, at).layers ?? [], `${at}.layers`, guess_of),
    })),
  };
}

export function heads_of(value: Json): Heads {
  const sequences = check.list_of(value.sequences, "sequences", sequence_of);
  const left_out = check.null_or(value.left_out, "left_out", left_out_of) ?? { heads: [], keys: [] };
  const attentions = check.list_of(value.attentions, "attentions", (one, at) => attention_of(one, at, sequences, left_out));
  if (attentions.length === 0) check.refuse("attentions must have an entry");
  return {
    kind: "heads",
    ...common_of(value),
    input: check.text_of(value.input, "input"),
    remarks: check.texts_of(value.remarks ?? [], "remarks"),
    sequences,
    left_out,
    attentions,
    sublayers: check.list_of(value.sublayers ?? [], "sublayers", (one, at) => sublayer_of(one, at, sequences)),
    translation: value.continuation
      ? translation_of(value.continuation, "continuation")
      : check.null_or(value.translation, "translation", translation_of),
  };
}
