// The frame of every view: title, views, tools, the command, and the tables of all numbers.
import { html, nothing, type TemplateResult } from "lit-html";
import type { Address, View } from "./address";
import { format_address } from "./address";
import { cost_panel, cost_tables } from "./cost";
import type { Explanation, Report } from "./explanation";
import { counted } from "./numbers";
import { head_view } from "./heads/head";
import { heads_view } from "./heads/heads";
import { lesson_view } from "./lesson";
import { training_view } from "./live/training_view";
import { short } from "./heads/map";
import { maps_view } from "./maps/maps";
import { model_view } from "./heads/model";
import { picture_view } from "./picture";
import { others_of, runs_bar } from "./runs/runs";
import { save_csv, save_png, save_svg } from "./save";
import type { Screen, Shown } from "./screen";
import { start_view } from "./start";
import { steps_view } from "./steps/steps";
import { token_view } from "./token";
import { translation_view } from "./translation";

const kTitles: Record<View, string> = {
  steps: "Steps",
  heads: "Heads",
  model: "Model",
  head: "Head",
  translation: "Translation",
  token: "Token",
  picture: "Picture",
  maps: "Map",
  training: "Train",
  lesson: "Lesson",
  start: "Start",
};
const kOfPage: readonly View[] = ["start", "training", "lesson"]; // whatever is explained

export function views_of(explanation: Explanation): View[] {
  if (explanation.kind !== "heads") return [explanation.kind];
  return explanation.translation ? ["translation", "heads", "model"] : ["heads", "model"];
}

// The tab of an explanation.
function tab_of(explanation: Explanation): string {
  if (explanation.kind !== "heads" || !explanation.translation) return kTitles[explanation.kind];
  return explanation.translation.continues ? "Write" : "Translate";
}

const kNothingChosen: Partial<Address> = { view: "", beat: -1, cell: "", token: -1, also: "", key: -1, head: "", attention: "" };

// Of the page, and one for each kind of explanation that it holds.
function tabs(report: Report, explanation: Explanation, view: View, screen: Screen): TemplateResult {
  const { explanations } = report;
  const kinds = new Map(explanations.map((one) => [tab_of(one), one] as const).reverse());
  const tab = (name: string, patch: Partial<Address>, now: boolean): TemplateResult =>
    html`<a href=${format_address({ ...screen.address, ...patch })} aria-current=${now ? "page" : "false"}>${name}</a>`;
  const of_page = (one: View): TemplateResult => tab(kTitles[one], { view: one }, view === one);
  const own = tab_of(explanation);
  const first = [...kinds].reverse().map(([name, one]) =>
    name === own && !kOfPage.includes(view)
      ? tab(name, {}, true)
      : tab(name, { ...kNothingChosen, of: explanations.indexOf(one), view: views_of(one)[0] as View }, false),
  );
  return html`<nav aria-label="Views">
    ${screen.live ? of_page("start") : nothing} ${first} ${screen.live ? of_page("training") : nothing} ${of_page("lesson")}
  </nav>`;
}

// Several explanations of one kind, and the views of one.
function choices(report: Report, explanation: Explanation, view: View, screen: Screen): TemplateResult | typeof nothing {
  const alike = report.explanations.filter((one) => tab_of(one) === tab_of(explanation));
  const views = views_of(explanation);
  if (alike.length === 1 && views.length === 1) return nothing;
  const { explanations } = report;
  return html`<nav class="choices-of-view" aria-label="Of this text">
    ${alike.length > 1
      ? html`<label
          >Shown
          <select @change=${(event: Event) => screen.go({ ...kNothingChosen, of: Number((event.target as HTMLSelectElement).value) })}>
            ${alike.map(
              (one) =>
                html`<option value=${explanations.indexOf(one)} ?selected=${one === explanation}>${explanations.indexOf(one) + 1}: ${short(name_of(one), 40)}</option>`,
            )}
          </select></label
        >`
      : nothing}
    ${views.length > 1
      ? views.map(
          (one) =>
            html`<a href=${format_address({ ...screen.address, view: one })} aria-current=${one === view ? "page" : "false"}>${title_of(one, explanation)}</a>`,
        )
      : nothing}
  </nav>`;
}

const title_of = (view: View, explanation: Explanation): string =>
  view === "translation" && explanation.kind === "heads" && explanation.translation?.continues ? "Writing" : kTitles[view];

function name_of(explanation: Explanation): string {
  if (explanation.kind !== "heads") return explanation.title;
  return explanation.translation?.source_text ?? (explanation.input || explanation.title);
}

// What the address shows: this run, the other, or both for their difference.
function run_of(this_one: Explanation, other: Explanation | null, screen: Screen): { explanation: Explanation; screen: Screen } {
  const { run } = screen.address;
  if (!other || run === "this") return { explanation: this_one, screen };
  if (run === "other") return { explanation: other, screen: { ...screen, live: null } };
  return { explanation: this_one, screen: { ...screen, other } };
}

function shown_of(view: View, explanation: Explanation, screen: Screen): Shown {
  switch (explanation.kind) {
    case "steps":
      return steps_view(explanation, screen);
    case "head":
      return head_view(explanation, screen);
    case "token":
      return token_view(explanation, screen);
    case "picture":
      return picture_view(explanation, screen);
    case "maps":
      return maps_view(explanation, screen);
    case "heads":
      if (view === "model") return model_view(explanation, screen);
      return view === "translation" && explanation.translation
        ? translation_view(explanation, explanation.translation, screen)
        : heads_view(explanation, screen);
  }
}

function faults(lines: readonly string[]): TemplateResult | typeof nothing {
  return lines.length === 0
    ? nothing
    : html`<div class="faults" role="alert">${lines.map((line) => html`<p>${line}</p>`)}</div>`;
}

export function failed_page(title: string, fault: string): TemplateResult {
  return html`<header class="top">
      <div>
        <span class="mark">qkv</span>
        <h1>${title}</h1>
      </div>
    </header>
    <main>${faults([fault])}</main>`;
}

function tools(shown: Shown, screen: Screen): TemplateResult {
  const picture = (save: (name: string, picture: TemplateResult) => void) => () => {
    const drawn = shown.picture();
    if (drawn) save(shown.name, drawn);
  };
  return html`<div class="tools" role="group" aria-label="This view">
    <label class="check"
      ><input
        type="checkbox"
        .checked=${screen.address.numbers}
        @change=${(event: Event) => screen.go({ numbers: (event.target as HTMLInputElement).checked })}
      />Numbers</label
    >
    <button class="plain" @click=${picture(save_svg)}>SVG</button>
    <button class="plain" @click=${picture(save_png)}>PNG</button>
    <button class="plain" @click=${() => save_csv(shown.name, [...shown.tables(), ...cost_tables(shown.costs ?? [])])}>CSV</button>
    <button class="plain" @click=${() => print()}>Print</button>
  </div>`;
}

export function page(report: Report, screen: Screen): TemplateResult {
  const { address } = screen;
  const explanation = report.explanations[address.of] ?? report.explanations[0];
  if (!explanation) return failed_page(report.title, report.faults[0] ?? "This report holds no explanation.");
  const views = [...views_of(explanation), "lesson", ...(screen.live ? ["start", "training"] : [])];
  const view = views.includes(address.view) ? (address.view as View) : (views[0] as View);
  const others = others_of(report, explanation, screen.live);
  const other = others[address.beside] ?? others.at(-1) ?? null;
  const seen = run_of(explanation, other, screen);
  const is_of_run = !kOfPage.includes(view);
  const shown =
    view === "start"
      ? start_view(report, screen)
      : view === "training" && screen.live
      ? training_view(screen.live.training, screen)
      : view === "lesson"
        ? lesson_view(report.explanations[0]?.kind === "steps", screen)
        : shown_of(view, seen.explanation, seen.screen);
  const bar = runs_bar(explanation, others, other, screen);
  return html` <a
      class="skip"
      href="#content"
      @click=${(event: Event) => {
        event.preventDefault();
        document.getElementById("content")?.focus();
      }}
      >To the content</a
    >
    <header class="top">
      <div>
        <span class="mark">qkv</span>
        <h1><bdi>${report.title}</bdi></h1>
      </div>
      ${view === "lesson" || view === "start" ? nothing : tools(shown, screen)}
    </header>
    ${tabs(report, explanation, view, screen)} ${is_of_run ? choices(report, explanation, view, screen) : nothing}
    ${faults(report.faults)}
    <main id="content" tabindex="-1" class=${address.numbers ? "" : "veil"}>
      ${report.explanations.length > 1 && is_of_run && explanation.kind !== "steps" ? html`<p class="about"><bdi>${name_of(explanation)}</bdi></p>` : nothing}
      ${explanation.cut > 0
        ? html`<p class="hint cut">
            The last ${counted(explanation.cut, "token")} of the text ${explanation.cut === 1 ? "was" : "were"} not read: the
            model has no positions for more.
          </p>`
        : nothing}
      ${explanation.kind === "heads" ? explanation.remarks.map((line) => html`<p class="hint cut">${line}</p>`) : nothing}
      ${is_of_run && other ? bar : nothing} ${shown.body} ${is_of_run && !other ? bar : nothing}
      ${cost_panel(shown.costs ?? [])}
    </main>
    <footer>
      ${report.left_out.map((line) => html`<p>${line}</p>`)}
      ${report.command ? html`<p>The command of this view: <code>${screen.live?.command_of(seen.explanation) ?? shown.command(report.command)}</code></p>` : nothing}
      ${seen.screen.other && screen.live?.command_of(seen.screen.other)
        ? html`<p>Of the other run: <code>${screen.live.command_of(seen.screen.other)}</code></p>`
        : nothing}
      <p>
        qkv ${explanation.version}, ${explanation.dtype}, CPU target ${explanation.target}. This page asks no network
        for anything.
      </p>
    </footer>`;
}
