// The text that a model reads, to be replaced by the reader's own; and the numbers of one head.
import { html, nothing, type TemplateResult } from "lit-html";
import type { Heads } from "../explanation";
import { unless_typed } from "./fields";
import type { Live } from "./live";

export function text_tools(heads: Heads, live: Live): TemplateResult | typeof nothing {
  const submit = (event: Event): void => {
    event.preventDefault();
    const text = new FormData(event.target as HTMLFormElement).get("text");
    live.explain_text(heads, String(text ?? ""));
  };
  return html`<form class="card live" aria-label="Your text" @submit=${submit}>
    <label class="wide"
      >${heads.translation ? "English to translate" : "Text"}
      <input
        id="text"
        name="text"
        autocomplete="off"
        .value=${unless_typed("text", heads.translation?.source_text ?? heads.input)}
      />
    </label>
    <button class="plain" ?disabled=${live.busy}>${heads.translation ? "Translate" : "Read"}</button>
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
    ${live.fault ? html`<p class="fault" role="alert">${live.fault}</p>` : nothing}
  </form>`;
}

export function head_button(heads: Heads, options: string[], live: Live | null): TemplateResult | typeof nothing {
  return live?.has_model
    ? html`<p>
        <button class="plain" ?disabled=${live.busy} @click=${() => live.explain_head(heads, options)}>
          Its numbers, step by step
        </button>
      </p>`
    : nothing;
}
