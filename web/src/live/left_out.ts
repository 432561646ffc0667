// Heads and keys that the model does without.
import { html, nothing, type TemplateResult } from "lit-html";
import { site_option } from "../command";
import type { Attention, HeadEntry, Heads, LeftOut } from "../explanation";
import { short } from "../heads/map";
import type { Live } from "./live";

type OneHead = LeftOut["heads"][number];
type OneKey = LeftOut["keys"][number];

const is_head = (a: OneHead, b: OneHead): boolean =>
  a.attention === b.attention && a.layer === b.layer && a.head === b.head;
const is_key = (a: OneKey, b: OneKey): boolean => a.attention === b.attention && a.key === b.key;

const tokens_of = (heads: Heads, attention: string): string[] =>
  heads.attentions.find((one) => one.name === attention)?.keys.tokens ?? [];

// As the program finds it: the first token that reads so, with or without the mark of a piece, before its number.
function key_option(tokens: readonly string[], key: number): string {
  const label = tokens[key] ?? "";
  return tokens.findIndex((token) => token === label || token === `##${label}`) === key ? label : String(key);
}

// The options of `qkv explain`.
export function left_out_words(heads: Heads, { heads: out, keys }: LeftOut): string[] {
  const site = (name: string): string => (heads.attentions.length > 1 ? `${site_option(name)}.` : "");
  return [
    ...out.flatMap((one) => ["--without-head", `${site(one.attention)}${one.layer}.${one.head}`]),
    ...keys.flatMap((one) => ["--without-key", site(one.attention) + key_option(tokens_of(heads, one.attention), one.key)]),
  ];
}

// What is left out, each to be taken back.
export function left_out_list(heads: Heads, live: Live): TemplateResult | typeof nothing {
  const { left_out } = heads;
  if (left_out.heads.length + left_out.keys.length === 0) return nothing;
  const site = (name: string): string => (heads.attentions.length > 1 ? `${site_option(name)} ` : "");
  const back = (name: string, rest: LeftOut): TemplateResult =>
    html`<button class="plain" ?disabled=${live.busy} @click=${() => live.leave_out(rest)}>
      <bdi>${name}</bdi> again
    </button>`;
  return html`<div class="choices wide" role="group" aria-label="Left out">
    <span class="fact">Left out:</span>
    ${left_out.heads.map((one) =>
      back(`With ${site(one.attention)}head ${one.layer}.${one.head}`, {
        ...left_out,
        heads: left_out.heads.filter((other) => !is_head(one, other)),
      }),
    )}
    ${left_out.keys.map((one) =>
      back(`With ${site(one.attention)}key ${one.key}, ${short(tokens_of(heads, one.attention)[one.key] ?? "")}`, {
        ...left_out,
        keys: left_out.keys.filter((other) => !is_key(one, other)),
      }),
    )}
  </div>`;
}

// Leaves out this head, or a key of its attention.
export function left_out_tools(heads: Heads, attention: Attention, head: HeadEntry, live: Live): TemplateResult {
  const { left_out } = heads;
  const this_head = { attention: attention.name, layer: head.layer, head: head.head };
  const is_out = left_out.heads.some((one) => is_head(one, this_head));
  const hidden = (key: number): boolean => left_out.keys.some((one) => is_key(one, { attention: attention.name, key }));
  return html`<div class="bar-of-tools live-out">
    <button
      class="plain"
      ?disabled=${live.busy || is_out}
      @click=${() => live.leave_out({ ...left_out, heads: [...left_out.heads, this_head] })}
    >
      Without this head
    </button>
    <label
      >Hide a key
      <select
        ?disabled=${live.busy}
        @change=${(event: Event) => {
          const field = event.target as HTMLSelectElement;
          const key = Number(field.value);
          field.value = "-1";
          live.leave_out({ ...left_out, keys: [...left_out.keys, { attention: attention.name, key }] });
        }}
      >
        <option value="-1">from every query</option>
        ${attention.keys.tokens.map(
          (token, i) => html`<option value=${i} ?disabled=${hidden(i)}>${i}: ${short(token)}</option>`,
        )}
      </select></label
    >
  </div>`;
}
