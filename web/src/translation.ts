// A translation while it is written: both sentences, what each word attended to, and the candidates of each token.
import { html, nothing, type TemplateResult } from "lit-html";
import { type Attention, type Candidate, type Heads, type Sequence, type Translation, type Written } from "./explanation";
import { format_address } from "./address";
import { framed, picture_of, sentence, show_choice } from "./heads/large_head";
import { text_tools } from "./live/text_tools";
import { type Drawn, map_picture } from "./heads/map";
import { change_text, clamp, number_text, share_text } from "./numbers";
import { difference_of, largest_of, same_names } from "./runs/difference";
import { pair_of } from "./runs/heads_pair";
import { cannot, change_legend } from "./runs/runs";
import { type Table, table_of } from "./save";
import type { Screen, Shown } from "./screen";
import { direction_of } from "./heads/words";

// `other`: what was written there in the run beside this one.
function candidates(written: Written, index: number, other: Written | null): TemplateResult {
  const probability_there = (token: string): number | undefined =>
    other ? [other, ...other.candidates].find((one) => one.token === token)?.probability : undefined;
  const row = (one: Candidate): TemplateResult => {
    const there = probability_there(one.token);
    return html`<tr class=${one.token === written.token ? "taken" : ""}>
      <th scope="row"><bdi class="token">${one.token}</bdi></th>
      <td>${share_text(one.probability)}</td>
      ${other ? html`<td>${there === undefined ? "-" : share_text(there)}</td>` : nothing}
      <td class="meter-cell" aria-hidden="true">
        <span class="meter"><i .style=${`--part:${one.probability}`}></i></span>
      </td>
    </tr>`;
  };
  return html`<table class="candidates" aria-live="polite">
      <caption>
        The five most probable for token ${index + 1}
      </caption>
      ${other
        ? html`<thead>
            <tr>
              <td></td>
              <th scope="col">this run</th>
              <th scope="col">before</th>
              <td></td>
            </tr>
          </thead>`
        : nothing}
      <tbody>
        ${written.candidates.map(row)}
      </tbody>
    </table>
    ${written.candidates.some((one) => one.token === written.token)
      ? nothing
      : html`<p class="hint">
          Written: <bdi class="token">${written.token}</bdi> (<span class="figure">${share_text(written.probability)}</span>).
        </p>`}
    ${other
      ? html`<p class="hint">
          The log-probability of <bdi class="token">${written.token}</bdi> changed by
          <strong class="figure">${change_text(Math.log(written.probability), Math.log(other.probability), 3)}</strong>.
        </p>`
      : nothing}`;
}

// What each layer would have written in its place, the last one first.
function guesses(written: Written): TemplateResult {
  const rows = written.layers.map((guess, layer) => ({ guess, layer })).reverse();
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Layers">
    <table class="candidates">
      <thead>
        <tr>
          <th scope="col">layer</th>
          <th scope="col">would write</th>
          <td></td>
          <th scope="col"><bdi class="token">${written.token}</bdi></th>
          <td></td>
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          ({ guess, layer }) =>
            html`<tr class=${guess.token === written.token ? "taken" : ""}>
              <th scope="row">${layer}</th>
              <td class="said"><bdi class="token">${guess.token}</bdi></td>
              <td>${share_text(guess.probability)}</td>
              <td>${share_text(guess.written)}</td>
              <td class="meter-cell" aria-hidden="true">
                <span class="meter"><i .style=${`--part:${guess.written}`}></i></span>
              </td>
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

// What each head of the attention gave to the source while this token was written.
function given_by_heads(
  attention: Attention,
  token: number,
  most: number | undefined, // the weights are differences, of which this is the largest
  screen: Screen,
): { drawn: Drawn; picture: TemplateResult } | null {
  const heads = attention.all.filter((one) => one.weights);
  if (heads.length === 0) return null;
  const ids = heads.map((one) => `${one.layer}.${one.head}`);
  const drawn: Drawn = {
    weights: heads.map((one) => one.weights?.[token] ?? []),
    queries: ids,
    keys: attention.keys.tokens,
    query: ids.indexOf(screen.address.head),
    key: screen.address.key,
    pick: (query, key) => screen.go({ head: ids[query] ?? "", key }),
    room: 400,
    most,
    screen: { ...screen, address: { ...screen.address, numbers: false } },
  };
  return { drawn, picture: map_picture(drawn) };
}

// Source words, the darker the more the chosen word attends to them; or changed, of which `most` is the largest.
export function source_line(words: readonly string[], row: readonly number[] | undefined, most: number | undefined): TemplateResult {
  const color = (weight: number): string => (most === undefined ? "" : `--role:var(--${weight < 0 ? "less" : "more"});`);
  const part = (weight: number): number => Math.min(1, Math.max(0, most === undefined ? weight : Math.abs(weight) / (most || 1)));
  return html`<p class="sentence" dir=${direction_of(words)}>
    ${words.map(
      (word, j) =>
        html`<bdi class="word role-weight" .style=${`${color(row?.[j] ?? 0)}--part:${part(row?.[j] ?? 0).toFixed(3)}`}
          >${word}</bdi
        > `,
    )}
  </p>`;
}

function output_line(output: Sequence, token: number, screen: Screen): TemplateResult {
  const kind = (i: number): string => (i < token ? "token written" : i === token ? "token now" : "token later");
  return html`<p class="sentence" dir=${direction_of(output.words)}>
    ${output.tokens.map(
      (one, i) =>
        html`<button class=${kind(i)} aria-pressed=${i === token} @click=${() => screen.go({ token: i })}>
          <bdi>${one}</bdi>
        </button> `,
    )}
  </p>`;
}

// The alignments of two runs: their difference, or why there is none.
function alignments(
  ours: Translation,
  theirs: Translation,
): { weights: number[][] | null; most?: number; line: string; same_output: boolean } {
  const same_output = same_names(
    ours.written.map((one) => one.token),
    theirs.written.map((one) => one.token),
  );
  const [own, other] = [ours.word_alignment, theirs.word_alignment];
  const same = same_names(ours.source_words, theirs.source_words) && same_names(ours.target_words, theirs.target_words);
  if (!same || !own || !other) {
    const line = same ? "" : "The two runs have other words: what they say of words cannot be subtracted.";
    return { weights: own, line, same_output };
  }
  const weights = difference_of(own, other);
  return { weights, most: largest_of([weights]), line: "", same_output };
}

export function translation_view(heads: Heads, translation: Translation, screen: Screen): Shown {
  const output = heads.sequences.find((one) => one.name === "target") ?? (heads.sequences[0] as Sequence);
  const last = Math.max(0, Math.min(output.tokens.length, translation.written.length) - 1);
  // At first what was written, not the prompt.
  const first = translation.continues ? output.word_of.findIndex((of_word) => of_word >= 0) : 0;
  const token = clamp(screen.address.token < 0 ? first : screen.address.token, 0, last);
  const written = translation.written[token];
  const word = output.word_of[token] ?? -1;
  const { continues } = translation;
  const attention = continues ? heads.attentions[0] : heads.attentions.find((one) => one.queries === output);
  const other = screen.other?.kind === "heads" ? screen.other : null;
  const two = other?.translation ? alignments(translation, other.translation) : null;
  const weights = two ? two.weights : translation.word_alignment;
  const most = two?.most;
  const drawn_of = (of: Translation, alignment: number[][] | null): Drawn | null =>
    alignment && {
      weights: alignment,
      queries: of.target_words,
      keys: of.source_words,
      query: word,
      key: -1,
      pick: (query) => screen.go({ token: Math.max(0, output.word_of.indexOf(query)) }),
      room: 690,
      most,
      screen,
    };
  const words = drawn_of(translation, weights);
  const theirs = other?.translation && two?.line ? drawn_of(other.translation, other.translation.word_alignment) : null;
  const pair = other && attention ? pair_of(attention, other) : null;
  const heads_agree = pair?.line === "";
  const by_head =
    attention && given_by_heads(heads_agree ? pair.attention : attention, token, heads_agree ? pair.most : undefined, screen);
  const picture = words && picture_of(words);
  const their_written = two && two.same_output ? (other?.translation?.written[token] ?? null) : null;
  const chosen_head = by_head && by_head.drawn.query >= 0 ? screen.address.head : "";

  const body = html` ${screen.live ? text_tools(heads, screen.live) : nothing}
    <section class="card" aria-label=${continues ? "The text" : "The two sentences"}>
      <h2>${continues ? "What was read, and what came next" : "What was read, what was written"}</h2>
      ${other ? cannot([two ? two.line : "The other run is no translation.", pair?.line ?? ""]) : nothing}
      ${source_line(translation.source_words, weights?.[word], most)}
      ${output_line(output, token, screen)}
      <div class="slider">
        <button class="plain" ?disabled=${token === 0} @click=${() => screen.go({ token: token - 1 })}>Back</button>
        <input
          type="range"
          min="0"
          max=${last}
          .value=${String(token)}
          aria-label="Token that is being written"
          aria-valuetext=${`${token + 1} of ${last + 1}: ${output.tokens[token] ?? ""}`}
          @input=${(event: Event) => screen.go({ token: Number((event.target as HTMLInputElement).value) })}
        />
        <button class="plain" ?disabled=${token === last} @click=${() => screen.go({ token: token + 1 })}>
          Next token
        </button>
      </div>
    </section>
    <div class="split wide-first">
      <section class="card" aria-label="Alignment">
        <h2>${continues ? "Which tokens a token came from" : "Which words a word came from"}</h2>
        ${words && picture
          ? html`<div class="bar-of-tools">
                ${show_choice(screen)} ${most === undefined ? nothing : change_legend(most, screen)}
              </div>
              ${sentence(words, "came", "from")}${framed(words, picture, "Alignment of words")}
              ${theirs
                ? html`<h3>Before</h3>
                    ${framed(theirs, picture_of(theirs), "Alignment of words, of the other run")}`
                : nothing}`
          : html`<p class="hint">
              ${continues
                ? "Of so many tokens it was not measured."
                : "This model has no attention between the two sentences."}
            </p>`}
      </section>
      <div class="pile">
        <section class="card" aria-label="Candidates">
          <h2>What else it might have written</h2>
          ${written ? candidates(written, token, their_written) : nothing}
        </section>
        ${written && written.layers.length > 0
          ? html`<section class="card" aria-label="Layers">
              <h2>What each layer would have written</h2>
              <p class="hint">Final norm and output on what the layer passes on; last, how probable what was written is.</p>
              ${guesses(written)}
            </section>`
          : nothing}
        ${attention && (by_head || attention.all.some((one) => one.map))
          ? html`<section class="card" aria-label="Heads">
              <h2>What each head looked at</h2>
              ${by_head
                ? html`<p class="hint">A row for each head, while it wrote <bdi class="token">${output.tokens[token]}</bdi>.</p>
                    ${framed(by_head.drawn, by_head.picture, "Heads")}`
                : html`<p class="hint">Of so many tokens the file holds maps, not every weight.</p>`}
              <p>
                <a
                  href=${format_address({
                    ...screen.address,
                    view: "heads",
                    attention: attention.name,
                    head: chosen_head,
                    token,
                    key: -1,
                  })}
                  >${chosen_head ? `Head ${chosen_head} alone` : "All heads"}</a
                >
              </p>
            </section>`
          : nothing}
      </div>
    </div>`;
  const tables = (): Table[] => [
    ...(weights
      ? [
          table_of(
            "alignment",
            translation.target_words,
            translation.source_words,
            weights.length,
            translation.source_words.length,
            (r, c) => weights[r]?.[c] ?? NaN,
          ),
        ]
      : []),
    {
      title: "written",
      lines: [
        ["token", "probability", "candidates"],
        ...translation.written.map((one) => [
          one.token,
          String(one.probability),
          ...one.candidates.flatMap((other) => [other.token, number_text(other.probability)]),
        ]),
      ],
    },
  ];
  return { body, name: `${continues ? "writing" : "translation"}-${token + 1}`, tables, picture: () => picture, command: (report) => report };
}
