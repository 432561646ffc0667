// The attention of one query in motion: its row of Q meets a column of K, products, their sum, softmax as bars, values as
// much as they weigh. A beat is a moment of it; nothing moves by itself where motion is to be reduced.
import { html, nothing, svg, type TemplateResult } from "lit-html";
import { heat, mixed, type Rgb, readable } from "../colors";
import type { Piece, Role } from "../explanation";
import { short } from "../heads/map";
import { clamp, largest, number_text } from "../numbers";
import type { Screen } from "../screen";
import { type Box, picture, rect, text } from "../shapes";
import { exps_of } from "./softmax";
import type { Walk } from "./tensors";
import { pieces } from "./terms";
import { count, num, plain } from "./terms_of";

const kMost = 8; // keys, and numbers of a query, a key, a value
const kRow = 26; // pixels
const kBars = 64;
const kSpeeds = [0.5, 1, 2, 4];
const kBeat = 1100; // milliseconds at speed 1

// All that moves, of one query.
interface Play {
  query: number[];
  keys: number[][];
  values: number[][];
  names: string[];
  name: string; // of the query
  scores: number[];
  logits: number[];
  exps: number[];
  sum: number;
  weights: number[];
  scale: number;
}

// What is there at a beat.
interface Beat {
  step: number;
  said: Piece[];
  met: number; // the key that the query is at; -1: none
  products: number; // of it, that are added
  scores: number; // of keys
  logits: boolean;
  bars: boolean;
  weights: boolean;
  values: number; // of keys, that are added
}

function play_of(walk: Walk, query: number): Play | null {
  const { tensors, score, scale } = walk;
  const lead = (tensors.get("weights")?.shape.length ?? 2) > 2 ? [0] : [];
  const [size, wide, m] = [tensors.size("query", -1), tensors.size("value", -1), tensors.size("key", -2)];
  const given = ["query", "key", "value", "logits", "weights"].every((name) => tensors.has(name));
  const put_in = ["scores", "logits", "weights"].some((name) => tensors.get(name)?.substituted);
  const soft = exps_of(walk, [...lead, query]);
  if (!given || put_in || !soft || !/dot$/.test(score) || Math.max(size, wide, m) > kMost) return null;
  const rows = (name: string, width: number): number[][] =>
    count(m).map((j) => count(width).map((d) => tensors.at(name, ...lead, j, d)));
  const own = count(size).map((d) => tensors.at("query", ...lead, query, d));
  const keys = rows("key", size);
  const names = tensors.get("inputs")?.rows ?? [];
  const name = (j: number): string => short(names[j] ?? `input ${j + 1}`, 10);
  return {
    query: own,
    keys,
    values: rows("value", wide),
    names: count(m).map(name),
    name: name(query),
    scores: keys.map((key) => key.reduce((sum, k, d) => sum + k * (own[d] as number), 0)),
    logits: soft.logits,
    exps: soft.exps,
    sum: soft.sum,
    weights: count(m).map((j) => tensors.at("weights", ...lead, query, j)),
    scale,
  };
}

function beats_of(play: Play): Beat[] {
  const { names, query, keys, scores, logits, weights, values } = play;
  const beats: Beat[] = [];
  let now: Beat = { step: 4, said: [], met: -1, products: 0, scores: 0, logits: false, bars: false, weights: false, values: 0 };
  const add = (change: Partial<Beat>, ...said: Piece[]): void => void beats.push((now = { ...now, ...change, said }));
  const products = (j: number, n: number): Piece[] =>
    count(n).flatMap((d) => [
      plain(d > 0 ? " + " : ""),
      num(query[d] as number, "query"),
      plain(" x "),
      num(keys[j]?.[d] as number, "key"),
    ]);
  add({}, plain("The query of "), { text: play.name, role: "query" }, plain(" and the key of each word, a column of K."));
  names.forEach((name, j) => {
    const meets = [plain("It meets the key of "), { text: name, role: "key" } as const, plain(". ")];
    if (j > 0) add({ met: j, products: query.length }, ...meets, ...products(j, query.length));
    else {
      add({ met: 0 }, ...meets);
      query.forEach((_, d) => add({ products: d + 1 }, ...products(0, d + 1)));
    }
    add({ scores: j + 1 }, ...products(j, query.length), plain(" = "), num(scores[j] as number, "score"), plain(`: the score of ${name}.`));
  });
  add({ met: -1, products: 0 }, plain("Each key has a score."));
  if (logits.some((logit, j) => logit !== scores[j])) {
    const scaled = play.scale === 1 ? [] : [plain("Each score x "), num(play.scale, "score"), plain(" is its logit. ")];
    add({ logits: true }, ...scaled, plain(logits.includes(-Infinity) ? "A key that the mask hides has -inf." : ""));
  }
  add({ step: 5, bars: true }, plain("exp of each, as a bar. Together "), num(play.sum, "weight"), plain("."));
  add({ weights: true }, plain("Each bar as a share of all of them: the weights. "), ...weights.flatMap((one, j) => [plain(j > 0 ? " + " : ""), num(one, "weight")]), plain(" = 1"));
  names.forEach((name, j) =>
    add({ step: 6, values: j + 1 }, num(weights[j] as number, "weight"), plain(" of the value of "), { text: name, role: "value" }, plain(j > 0 ? " is added." : " is taken.")),
  );
  const output = values[0]?.map((_, d) => num(output_at(play, d, names.length), "output")) ?? [];
  add({ step: 7 }, plain(`Their sum is the output of ${play.name}: `), ...output.flatMap((one, d) => [plain(d > 0 ? ", " : ""), one]));
  return beats;
}

// With the values of so many keys.
const output_at = ({ weights, values }: Play, d: number, keys: number): number =>
  count(keys).reduce((sum, j) => sum + (weights[j] === 0 ? 0 : (weights[j] as number) * (values[j]?.[d] as number)), 0);

const brief = (value: number): string => (Number.isFinite(value) ? String(Number(value.toFixed(2))) : number_text(value));

function drawn(play: Play, beat: Beat, screen: Screen): TemplateResult {
  const { colors, address, narrow } = screen;
  const m = play.names.length;
  const [size, wide] = [play.query.length, play.values[0]?.length ?? 0];
  const [labels, of_query] = narrow ? [62, 32] : [76, 56];
  const column = clamp((narrow ? 202 : 480) / (m + 1), narrow ? 42 : 50, 96);
  const first = labels + of_query + 14;
  const x = (j: number): number => first + column * j;
  const right = x(m) + 12; // of the output
  const scores = 30 + kRow * size + 12;
  const bars = scores + kRow * (beat.logits ? 2 : 1) + 14;
  const weights = bars + kBars + 6;
  const values = weights + kRow + 16;
  const number = (box: Box, value: number, fill: Rgb, bold = false): unknown =>
    address.numbers ? text(box.x + box.width - 6, box.y + 17, brief(value), { fill, anchor: "end", bold }) : [];
  const shaded = (box: Box, value: number, most: number, role: Role): unknown => {
    const fill = mixed(colors.paper, colors.roles[role], 0.08 + (0.4 * Math.abs(value)) / (most || 1));
    return [rect(box, { fill, stroke: colors.paper, round: 3 }), number(box, value, colors.ink)];
  };
  const cell = (at: number, y: number, width = column): Box => ({ x: at, y, width, height: kRow });
  const label = (y: number, said: string, role: Role): unknown =>
    text(labels - 8, y + 17, said, { fill: colors.roles[role], bold: true, anchor: "end" });
  const row_of = (y: number, said: string, list: readonly number[], there: number): unknown => [
    label(y, said, "score"),
    list.slice(0, there).map((value, j) => number(cell(x(j), y), value, colors.ink, j === beat.met)),
  ];
  const [most_key, most_value] = [largest(play.keys.flat()), largest(play.values.flat())];
  const most_exp = Math.max(...play.exps, 1e-30);
  const partial = beat.met >= 0 && beat.scores <= beat.met && beat.products > 0;
  const so_far = count(beat.products).reduce((sum, d) => sum + (play.query[d] as number) * (play.keys[beat.met]?.[d] as number), 0);
  const travelled = beat.met < 0 ? 0 : x(beat.met) - labels;
  const most_query = largest(play.query);
  return picture(right + column + 8, values + kRow * wide + 12, colors.paper, 12, [
    text(labels + of_query / 2, 20, "Q", { fill: colors.roles.query, bold: true, anchor: "middle" }),
    play.names.map((name, j) => text(x(j) + column / 2, 20, short(name, narrow ? 7 : 10), { fill: colors.ink, bold: j === beat.met, anchor: "middle" })),
    label(30, "K", "key"),
    play.keys.map((key, j) => key.map((k, d) => shaded(cell(x(j), 30 + kRow * d), k, most_key, "key"))),
    play.query.map((q, d) => shaded(cell(labels, 30 + kRow * d, of_query), q, most_query, "query")),
    // The row of Q on its way: beside the numbers of the key that it meets.
    svg`<g class="moves" opacity=${beat.met < 0 ? 0 : 1} .style=${`transform:translateX(${travelled}px)`}>
      ${play.query.map((q, d) => {
        const box = cell(labels, 30 + kRow * d, Math.min(of_query, column * 0.46));
        const used = beat.met >= 0 && d < beat.products;
        return [
          rect(box, { fill: mixed(colors.paper, colors.roles.query, used ? 0.75 : 0.3), stroke: colors.roles.query, round: 3 }),
          number(box, q, used ? readable(colors, mixed(colors.paper, colors.roles.query, 0.75)) : colors.ink),
        ];
      })}
    </g>`,
    row_of(scores, narrow ? "Q x K" : "scores", play.scores, beat.scores),
    partial ? number(cell(x(beat.met), scores), so_far, colors.faint) : [],
    beat.logits ? row_of(scores + kRow, "logits", play.logits, m) : [],
    label(bars + kBars - kRow, "exp", "weight"),
    rect({ x: first, y: bars + kBars, width: column * m, height: 1 }, { fill: colors.strong }),
    play.exps.map((one, j) => {
      const height = Math.max(1, ((kBars - 16) * one) / most_exp);
      const box = { x: x(j) + column * 0.2, y: bars + kBars - height, width: column * 0.6, height };
      return [
        svg`<g class="moves grows" .style=${`transform:scaleY(${beat.bars ? 1 : 0})`}>${rect(box, { fill: colors.roles.weight, round: 2 })}</g>`,
        beat.bars && address.numbers ? text(x(j) + column / 2, box.y - 4, brief(one), { fill: colors.ink, anchor: "middle", size: 11 }) : [],
      ];
    }),
    beat.bars && address.numbers
      ? ["sum", brief(play.sum)].map((said, line) =>
          text(right + column / 2, bars + kBars - 20 + 16 * line, said, { fill: colors.roles.weight, bold: true, anchor: "middle" }),
        )
      : [],
    label(weights, "weights", "weight"),
    beat.weights
      ? play.weights.map((weight, j) => {
          const fill = heat(colors, weight);
          return [rect(cell(x(j), weights), { fill, stroke: colors.paper, round: 3 }), number(cell(x(j), weights), weight, readable(colors, fill))];
        })
      : [],
    label(values, "V", "value"),
    play.values.map((value, j) =>
      value.map((one, d) => {
        const added = j < beat.values;
        const box = cell(x(j), values + kRow * d);
        const now = added ? (play.weights[j] as number) * one : one;
        return [shaded(box, now, most_value, "value"), j === beat.values - 1 && beat.step === 6 ? rect(box, { stroke: colors.roles.value, thick: 2, round: 3 }) : []];
      }),
    ),
    beat.values > 0
      ? [
          text(right + column / 2, values - 6, "output", { fill: colors.roles.output, bold: true, anchor: "middle" }),
          count(wide).map((d) => {
            const box = cell(right, values + kRow * d);
            return [rect(box, { fill: mixed(colors.paper, colors.roles.output, 0.1), stroke: colors.roles.output, round: 3, thick: beat.step === 7 ? 2.5 : 1 }), number(box, output_at(play, d, beat.values), colors.ink, true)];
          }),
        ]
      : [],
  ]);
}

let timer = 0; // of the next beat; 0: it does not play
let speed = 1;

const is_still = (): boolean => matchMedia("(prefers-reduced-motion: reduce)").matches;

export function motion_button(walk: Walk, query: number, screen: Screen): TemplateResult | typeof nothing {
  if (!play_of(walk, query)) return nothing;
  const shown = screen.address.beat >= 0;
  const click = (): void => {
    screen.go({ beat: shown ? -1 : 0 });
    document.querySelector(".motion")?.scrollIntoView({ block: "nearest" });
  };
  return html`<button class="plain" aria-pressed=${shown} @click=${click}>In motion</button>`;
}

export function motion(walk: Walk, query: number, screen: Screen): TemplateResult | typeof nothing {
  const play = screen.address.beat < 0 ? null : play_of(walk, query);
  if (!play) return nothing;
  const beats = beats_of(play);
  const at = clamp(screen.address.beat, 0, beats.length - 1);
  const beat = beats[at] as Beat;
  const go = (to: number, lasting: boolean): void => {
    const next = clamp(to, 0, beats.length - 1);
    screen.go({ beat: next, step: (beats[next] as Beat).step, cell: "" }, lasting);
  };
  const stop = (): void => {
    clearTimeout(timer);
    timer = 0;
  };
  const by_hand = (to: number) => (): void => {
    stop();
    go(to, true);
  };
  if (is_still()) stop();
  // The page is drawn anew at every beat, which sets the next one.
  if (timer !== 0) {
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      if (!document.querySelector(".motion")) return stop();
      if (at + 1 >= beats.length - 1) timer = 0;
      go(at + 1, timer === 0);
    }, kBeat / speed);
  }
  const start = (): void => {
    timer = window.setTimeout(() => undefined);
    go(at === beats.length - 1 ? 0 : at, false);
  };
  const pause = (): void => by_hand(at)();
  return html`<section class="card motion" aria-label="In motion" .style=${`--beat:${kBeat / speed}ms`}>
    <div class="bar-of-tools">
      ${is_still()
        ? html`<span class="fact">Motion is turned off on this device: step through it.</span>`
        : html`<button class="plain" @click=${timer === 0 ? start : pause}>${timer === 0 ? "Play" : "Pause"}</button>`}
      <button class="plain" ?disabled=${at === 0} @click=${by_hand(at - 1)}>Step back</button>
      <button class="plain" ?disabled=${at === beats.length - 1} @click=${by_hand(at + 1)}>Step on</button>
      ${is_still()
        ? nothing
        : html`<label
            >Speed
            <select
              @change=${(event: Event) => {
                speed = Number((event.target as HTMLSelectElement).value);
                screen.go({});
              }}
            >
              ${kSpeeds.map((one) => html`<option value=${one} ?selected=${one === speed}>${one} x</option>`)}
            </select></label
          >`}
      <span class="fact">${at + 1} of ${beats.length}</span>
    </div>
    <div class="moment">
      <p class="beat figure" aria-live=${timer === 0 ? "polite" : "off"}>${pieces(beat.said)}</p>
      <div class="scroll" tabindex="0" role="img" aria-label="What is computed by now">${drawn(play, beat, screen)}</div>
    </div>
  </section>`;
}
