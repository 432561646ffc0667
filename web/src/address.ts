// What the reader looks at, as the fragment of the page's address: #view=heads&head=1.0&token=3.

export const kViews = ["steps", "heads", "model", "head", "translation", "token", "picture", "maps", "training", "lesson", "start"] as const;
export type View = (typeof kViews)[number];
export const kShows = ["map", "lines", "row"] as const;
export type Show = (typeof kShows)[number];

export const kRuns = ["this", "other", "difference"] as const;
export type RunShown = (typeof kRuns)[number];

export interface Address {
  view: View | ""; // "": the first that the report has
  of: number; // of several explanations the one of this number, from 0
  step: number; // 1 to 8
  query: number; // the query whose steps are shown
  beat: number; // of the steps in motion, from 0; -1: they are not shown so
  cell: string; // a number of the steps: "query:0.1"; of the model a sublayer
  attention: string;
  head: string; // "LAYER.HEAD"
  token: number; // a query, or a written token; -1: none
  also: string; // further queries, whose weights are added: "3,4"
  lines: string; // further heads whose lines are shown: "1.0,1.2"
  key: number; // -1: none
  show: Show;
  several: boolean; // what is chosen is added to the queries that are
  words: boolean; // pieces of words are joined
  sort: string; // "place" or a measure
  numbers: boolean;
  at: string; // of a large map what is seen: "ZOOM,X,Y"
  chapter: number; // of the lesson; 0: all
  run: RunShown; // of two
  said: string; // the reader's sentence; "": that of the page
  made: string; // what the reader changed of its steps (live/changes.ts)
  out: string; // heads and keys that the model does without, as JSON
  beside: number; // of several runs beside this one the one of this number, from 0; -1: the last
}

export const kStart: Address = {
  view: "",
  of: 0,
  step: 1,
  query: 0,
  beat: -1,
  cell: "",
  attention: "",
  head: "",
  token: -1,
  also: "",
  lines: "",
  key: -1,
  show: "map",
  several: false,
  words: false,
  sort: "place",
  numbers: true,
  at: "",
  chapter: 0,
  run: "this",
  said: "",
  made: "",
  out: "",
  beside: -1,
};

function whole(text: string, otherwise: number): number {
  return /^\d{1,9}$/.test(text) ? Number(text) : otherwise;
}

const one_of = <T extends string>(text: string, choices: readonly T[], otherwise: T): T =>
  choices.includes(text as T) ? (text as T) : otherwise;

// What it does not understand is left as it is at the start.
export function parse_address(fragment: string): Address {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const text = (name: keyof Address): string => given.get(name) ?? "";
  return {
    view: one_of(text("view"), kViews, "" as View),
    of: whole(text("of"), 0),
    step: whole(text("step"), 1),
    query: whole(text("query"), 0),
    beat: whole(text("beat"), -1),
    cell: text("cell"),
    attention: text("attention"),
    head: /^\d+\.\d+$|^rollout$/.test(text("head")) ? text("head") : "",
    token: whole(text("token"), -1),
    also: /^\d{1,9}(,\d{1,9})*$/.test(text("also")) ? text("also") : "",
    lines: /^\d+\.\d+(,\d+\.\d+)*$/.test(text("lines")) ? text("lines") : "",
    key: whole(text("key"), -1),
    show: one_of(text("show"), kShows, "map"),
    several: text("several") === "1",
    words: text("words") === "1",
    sort: text("sort") || "place",
    numbers: text("numbers") !== "0",
    at: /^[\d.]+,[\d.]+,[\d.]+$/.test(text("at")) ? text("at") : "",
    chapter: whole(text("chapter"), 0),
    run: one_of(text("run"), kRuns, "this"),
    said: text("said"),
    made: text("made"),
    out: text("out"),
    beside: whole(text("beside"), -1),
  };
}

export function format_address(address: Address): string {
  const parts: string[] = [];
  for (const name of Object.keys(kStart) as (keyof Address)[]) {
    const value = address[name];
    if (value === kStart[name]) continue;
    const text = typeof value === "boolean" ? (value ? "1" : "0") : String(value);
    parts.push(`${name}=${encodeURIComponent(text).replace(/%3A/g, ":").replace(/%2C/g, ",")}`);
  }
  return `#${parts.join("&")}`;
}
