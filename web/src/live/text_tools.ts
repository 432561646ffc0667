// The text that a model reads, to be replaced by the reader's own; and the numbers of one head.
import { html, nothing, type TemplateResult } from "lit-html";
import type { Attention, HeadEntry, Heads } from "../explanation";
import { unless_typed } from "./fields";
import { left_out_list, left_out_tools } from "./left_out";
import type { Live } from "./live";

export function text_tools(heads: Heads, live: Live): TemplateResult | typeof nothing {
  const writes = heads.translation?.continues;
  const submit = (event: Event): void => {
    event.preventDefault();
    const text = new FormData(event.target as HTMLFormElement).get("text");
    live.explain_text(String(text ?? ""));
  };
  return html`<form class="card live" aria-label="Your text" @submit=${submit}>
    <label class="wide"
      >${writes ? "Text to go on from" : heads.translation ? "English to translate" : "Text"}
      <input
        id="text"
        name="text"
        autocomplete="off"
        .value=${unless_typed("text", live.text_of(heads))}
      />
    </label>
    <button class="plain" ?disabled=${live.busy}>${writes ? "Write" : heads.translation ? "Translate" : "Read"}</button>
    <label class="plain file"
      >Open a model<input
        type="file"
        webkitdirectory
        @change=${(event: Event) => {
          const field = event.target as HTMLInputElement;
          void live.open_files([...(field.files ?? [])]);
          field.value = "";
        }}
    /></label>
    ${left_out_list(heads, live)} ${live.fault ? html`<p class="fault" role="alert">${live.fault}</p>` : nothing}
  </form>`;
}

// Of one head: its numbers, and the run without it.
export function head_tools(
  heads: Heads,
  attention: Attention,
  head: HeadEntry,
  options: string[],
  live: Live | null,
): TemplateResult | typeof nothing {
  return live?.has_model
    ? html`<p>
          <button class="plain" ?disabled=${live.busy} @click=${() => live.explain_head(heads, options)}>
            Its numbers, step by step
          </button>
        </p>
        ${left_out_tools(heads, attention, head, live)}`
    : nothing;
}
