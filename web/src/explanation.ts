// What an explanation holds: docs/explain_json.md says what each member is.
import type { Nested } from "./read/check";

export const kRoles = ["input", "query", "key", "value", "score", "weight", "output", "none"] as const;
export type Role = (typeof kRoles)[number];
export const kScores = ["dot", "scaled-dot", "additive", "concat", "bilinear"] as const;
export type Score = (typeof kScores)[number];

export interface Piece {
  text: string;
  role: Role;
}
export interface Tensor {
  name: string;
  role: Role;
  shape: number[];
  rows: string[];
  columns: string[];
  substituted: boolean;
  values: Nested | null;
}
export interface Pixels {
  caption: string;
  pixels: number[][];
}
export interface Block {
  lines: Piece[][];
  pictures: Pixels[];
  tensors: Tensor[];
}
export interface Section {
  number: number;
  title: string;
  blocks: Block[];
}
export interface Mask {
  rules: string[];
  hidden: number[][] | null; // of too many inputs
}
export interface Common {
  title: string;
  version: string;
  target: string;
  dtype: "f32" | "f64";
  cut: number; // tokens at the end of what was read that the model has no positions for
}
// What plan() says of a call of attention.
export interface Cost {
  kernel: string;
  target: string;
  precision: string;
  threads: number;
  tiles: number;
  skipped_tiles: number;
  operations: number;
  bytes: number;
  workspace: number;
  remarks: string[];
}
export interface Steps extends Common {
  kind: "steps";
  score: Score;
  scale: number;
  sections: Section[];
  mask: Mask | null;
  cost: Cost | null;
  substituted: string[];
}
export interface Sequence {
  name: string;
  caption: string;
  tokens: string[];
  special: boolean[];
  word_of: number[];
  words: string[];
}
export const kMeasures = ["entropy", "distance", "first", "previous", "next", "itself", "separators"] as const;
export type Measure = (typeof kMeasures)[number];
export type Summary = Record<Measure, number>;
export const kTokenMeasures = ["weight", "value_norm", "gradient", "rollout", "knock_out"] as const;
export type TokenMeasure = (typeof kTokenMeasures)[number];
// Of causal attention: what goes behind earlier copies of a token, and to them.
export const kCopyMeasures = ["induction", "duplicate"] as const;
export type CopyMeasure = (typeof kCopyMeasures)[number];
export interface HeadEntry extends Summary {
  more: Partial<Record<TokenMeasure | CopyMeasure | "moved" | "beyond", number>>; // what not every report has
  pattern: string;
  layer: number;
  head: number;
  weights: number[][] | null;
  map: OwnMap | null; // of many tokens, instead of weights
}
export interface Attention {
  name: string;
  title: string;
  caption: string;
  layers: number;
  heads: number;
  queries: Sequence;
  keys: Sequence;
  mask: string;
  largest_entropy: number;
  cost: Cost | null;
  all: HeadEntry[];
}
export interface Candidate {
  token: string;
  probability: number;
}
// What a layer would have written, and the probability of what was written.
export interface LayerGuess extends Candidate {
  written: number;
}
export interface Written extends Candidate {
  candidates: Candidate[];
  layers: LayerGuess[]; // of a language model
}
export interface Translation {
  continues: boolean; // what a language model wrote behind a prompt; its words are tokens
  source_text: string;
  target_text: string;
  source_words: string[];
  target_words: string[];
  word_alignment: number[][] | null;
  written: Written[];
}
// What a sublayer passes on; its place in the model.
export interface Sublayer {
  name: string;
  part: string;
  sequence: Sequence;
  size: number;
  lengths: number[];
  layer: number | null;
  attention: string | null;
}
// What a run did without.
export interface LeftOut {
  heads: { attention: string; layer: number; head: number }[];
  keys: { attention: string; key: number }[];
}
export interface Heads extends Common {
  kind: "heads";
  remarks: string[];
  input: string;
  sequences: Sequence[];
  left_out: LeftOut;
  attentions: Attention[];
  sublayers: Sublayer[];
  translation: Translation | null;
}
export interface Head extends Common {
  kind: "head";
  attention: string;
  layer: number;
  head: number;
  heads: number;
  score: Score;
  scale: number;
  mask: string;
  cost: Cost | null;
  tokens: string[];
  keys: string[];
  token: number | null;
  query: number[][];
  key: number[][];
  value: number[][];
  v: number[] | null;
  scores: number[][];
  bias: number[][] | null; // what is added to scale * scores
  logits: number[][];
  log_sum_exp: number[];
  weights: number[][];
  output: number[][];
  summary: Summary;
}
export interface Measured {
  measure: TokenMeasure;
  values: number[];
  rank_correlation: number | null;
}
export interface Token extends Common {
  kind: "token";
  input: string;
  tokens: string[];
  token: number;
  log_probability: number | null;
  keys: { attention: string; tokens: string[]; measures: Measured[] }[];
  heads: { all: { attention: string; layer: number; head: number }[]; measures: Measured[] };
  score: number | null; // of a head's output that is a logit
  words: { all: string[]; measures: Measured[] } | null; // of a head's output
}
export interface PictureHead {
  layer: number;
  head: number;
  entropy: number;
  to_class: number;
  patches: number[][];
}
export interface Picture extends Common {
  kind: "picture";
  grid: [number, number];
  token: string;
  classes: { label: string; probability: number }[]; // most probable first; of a model with a classifier
  rollout: number[][];
  heads: PictureHead[];
  pixels: number[][][];
}
// Means over blocks, a byte each: tiles of a level, row by row.
export interface MapLevel {
  rows: number;
  columns: number;
  largest: number;
  tiles: Uint8Array[];
}
// Numbers in base64, as are those below.
export interface KeptRow {
  query: number;
  weights: string;
}
export interface HeadMap {
  levels: MapLevel[]; // the finest first
  top: { count: number; keys: string; weights: string } | null;
  rows: KeptRow[];
}
export interface MapHead extends HeadMap {
  batch: number;
  head: number;
}
// What maps are of.
export interface Mapped {
  queries: number;
  keys: number;
  tile: number; // rows and columns of a tile, at most
  dtype: "f32" | "f64";
}
export type OwnMap = HeadMap & Mapped;
export interface Maps extends Common, Mapped {
  kind: "maps";
  dtype: "f32" | "f64";
  whole: boolean; // every weight is kept
  cost: Cost | null;
  heads: MapHead[];
}
export type Explanation = Steps | Heads | Head | Token | Picture | Maps;

export interface Report {
  title: string;
  command: string;
  start: string; // the address of the view that is first; "": the first that there is
  left_out: string[];
  explanations: Explanation[];
  beside: Explanation[]; // recorded or kept to be compared with them
  faults: string[]; // a line for each explanation that cannot be shown
}
