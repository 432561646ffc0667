// The sentence of the steps, to be replaced by the reader's own or by an example.
import { html, type TemplateResult } from "lit-html";
import type { Steps } from "../explanation";
import type { Screen } from "../screen";
import { kDocuments, kMostWords, kSentence, words_of } from "../steps/sentence";
import { unless_typed } from "./fields";
import type { Live } from "./live";

const kExamples: Record<string, string> = {
  "": kSentence,
  "The cat drinks milk": "The cat drinks milk",
  "Dogs chase the black cat": "Dogs chase the black cat",
  [kDocuments]: "the documents' example",
};

export function sentence_form(steps: Steps, screen: Screen, live: Live): TemplateResult {
  const { said } = screen.address;
  const say = (text: string): void => screen.go({ said: text === kSentence ? "" : text, made: "", cell: "", query: 0 });
  const more = said !== kDocuments && said.split(/\s+/).length > words_of(said).length;
  return html`<form
    class="live sentence-form"
    aria-label="Words"
    @submit=${(event: Event) => {
      event.preventDefault();
      const text = String(new FormData(event.target as HTMLFormElement).get("sentence") ?? "").trim();
      if (text === "") return live.say("Type a word or more.");
      say(text);
    }}
  >
    <label class="wide"
      >Your sentence
      <input id="sentence" name="sentence" autocomplete="off" .value=${unless_typed("sentence", said === kDocuments ? "" : said || kSentence)} />
    </label>
    <button class="plain">Use it</button>
    <span class="choices" role="group" aria-label="Examples">
      ${Object.entries(kExamples).map(
        ([text, name]) => html`<button class="plain" type="button" aria-pressed=${said === text} @click=${() => say(text)}>${name}</button>`,
      )}
    </span>
    <span class="fact" role="status">
      ${live.busy ? "Computing..." : more ? `The first ${kMostWords} words: the matrices stay readable.` : `${steps.mask ? "With a mask. " : ""}Each word has a vector of four numbers; a model would have learned them.`}
    </span>
  </form>`;
}
