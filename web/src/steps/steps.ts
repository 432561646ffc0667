// The eight steps: the matrices of a step side by side with those they are computed from.
import { html, nothing, type TemplateResult } from "lit-html";
import type { Section, Steps } from "../explanation";
import { grey_image } from "../grid";
import { sentence_form } from "../live/sentence_form";
import { editing_of, steps_tools } from "../live/steps_tools";
import { short } from "../heads/map";
import { matrix, type MatrixUse } from "./matrices";
import { clamp } from "../numbers";
import { derive } from "./products";
import { pair_panel, two_of } from "../runs/windows";
import { cannot } from "../runs/runs";
import { table_of } from "../save";
import type { Screen, Shown } from "../screen";
import { about_one_query, facts_of, first_choice, queries_of, stage_of, title_of, walk_of } from "./stage";
import { overview } from "./overview";
import { remark } from "./remark";
import { motion, motion_button } from "./motion";
import { steps_picture } from "./steps_picture";
import { parse_cell, value_at, type Walk } from "./tensors";
import { line_of, pieces, terms_panel } from "./terms";

function words(section: Section, skip: boolean): TemplateResult | typeof nothing {
  const lines = skip ? [] : section.blocks.flatMap((block) => block.lines);
  const [lead, ...rest] = lines;
  if (!lead) return nothing;
  return html`<p class="lead">${pieces(lead)}</p>
    ${rest.length > 0
      ? html`<details class="lines">
          <summary>Line by line</summary>
          <div class="scroll" tabindex="0" role="group" aria-label="Line by line">
            ${rest.map(line_of)}
          </div>
        </details>`
      : nothing}`;
}

function pictures(section: Section): TemplateResult | typeof nothing {
  const all = section.blocks.flatMap((block) => block.pictures);
  if (all.length === 0) return nothing;
  return html`<div class="pictures">
    ${all.map(
      (one) =>
        html`<figure>
          <img src=${grey_image(one.pixels)} alt=${`picture of ${one.caption}`} />
          <figcaption><bdi>${one.caption}</bdi></figcaption>
        </figure>`,
    )}
  </div>`;
}

function step_panel(
  steps: Steps,
  walk: Walk,
  section: Section,
  query: number,
  screen: Screen,
  go_step: (by: 1 | -1) => void,
): TemplateResult {
  const stage = stage_of(walk, section, query);
  const other = screen.other?.kind === "steps" ? walk_of(screen.other) : null;
  const [before, now] = [two_of(stage.before, other), two_of(stage.now, other)];
  const asked = parse_cell(screen.address.cell);
  const here = [...stage.before, ...stage.now].some((window) => window.tensor.name === asked?.name);
  const chosen =
    !screen.printing && asked && here && walk.tensors.holds(asked) ? screen.address.cell : first_choice(walk, stage);
  const cell = parse_cell(chosen);
  const lit = new Set(cell ? derive(walk, cell)?.terms.flatMap((term) => term.from) : []);
  const use: MatrixUse = {
    screen,
    chosen,
    lit,
    pick: (id) => screen.go({ cell: id, step: section.number }),
    leave: go_step,
    ...(screen.live ? { editing: editing_of(steps, walk, screen.live) } : {}),
  };
  const whole = screen.printing ? null : overview(walk, section.number, query, screen);
  return html`<article class="step" aria-labelledby="step-${section.number}">
    <h2 id="step-${section.number}">
      <span class="number">${section.number}</span> <bdi>${title_of(walk, section, query)}</bdi>
    </h2>
    ${other ? nothing : words(section, query > 0 && about_one_query(walk, section))}
    ${cannot([...before.lines, ...now.lines])}
    <div class="stage">
      <div>
        ${pictures(section)}
        ${before.windows.length > 0
          ? html`<div class="matrices from">${before.windows.map((window) => matrix(window, use))}</div>
              <p class="becomes" aria-hidden="true">gives</p>`
          : nothing}
        <div class="matrices">${now.windows.map((window) => matrix(window, use))}</div>
      </div>
      <div class="beside">
        ${whole ? html`<div class="overview" role="group" aria-label="The whole computation">${whole}</div>` : nothing}
        ${other ? pair_panel(walk, other, chosen) : terms_panel(walk, chosen)}
      </div>
    </div>
    ${screen.live && !screen.printing ? steps_tools(steps, walk, chosen, screen.live) : nothing}
  </article>`;
}

export function steps_view(steps: Steps, screen: Screen): Shown {
  const walk = walk_of(steps);
  const numbered = steps.sections.filter((section) => section.number > 0);
  const at = clamp(
    numbered.findIndex((section) => section.number === screen.address.step),
    0,
    numbered.length - 1,
  );
  const section = numbered[at] as Section;
  const queries = queries_of(walk);
  const query = clamp(screen.address.query, 0, Math.max(0, queries - 1));
  const go_to = (index: number, focus: boolean): void => {
    const next = numbered[clamp(index, 0, numbered.length - 1)];
    if (next) screen.go({ step: next.number, cell: "" });
    if (focus) document.querySelector<HTMLElement>("[role=tab][aria-selected=true]")?.focus();
  };
  const leave = (by: 1 | -1): void => {
    go_to(at + by, false);
    (
      document.querySelector<HTMLElement>(".step td.chosen") ?? document.querySelector<HTMLElement>(".step .heat")
    )?.focus();
  };
  const on_tab = (event: KeyboardEvent): void => {
    const to: Record<string, number> = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: numbered.length - 1 };
    const next = to[event.key];
    if (next === undefined) return;
    event.preventDefault();
    go_to(next, true);
  };
  // A remark belongs to the step before it.
  const remarks = (of: Section): Section[] => {
    const index = steps.sections.indexOf(of);
    const following = steps.sections.slice(index + 1);
    const end = following.findIndex((one) => one.number > 0);
    const first = of === numbered[0] ? steps.sections.slice(0, index) : [];
    return [...first, ...(end < 0 ? following : following.slice(0, end))];
  };
  const plain: MatrixUse = { screen, chosen: "", lit: new Set(), pick: (id) => screen.go({ cell: id }), leave };
  const one = (of: Section): TemplateResult =>
    html`${step_panel(steps, walk, of, query, screen, leave)}
    ${(screen.other ? [] : remarks(of)).map((remarked) => remark(remarked, walk, { ...plain, chosen: screen.address.cell }))}`;
  const inputs = walk.tensors.get("inputs")?.rows ?? [];
  const shown = stage_of(walk, section, query);
  const other = screen.other?.kind === "steps" ? walk_of(screen.other) : null;
  const [before, now] = [two_of(shown.before, other).windows, two_of(shown.now, other).windows];
  const windows = [...before, ...now].filter((window) => window.tensor.values !== null);

  const body = html` ${screen.live && !screen.printing ? sentence_form(steps, screen, screen.live) : nothing}
    <div class="strip" role="tablist" aria-label="Steps" @keydown=${on_tab}>
      ${numbered.map(
        (each) =>
          html`<button
            role="tab"
            id="tab-${each.number}"
            aria-selected=${each === section}
            aria-controls="the-step"
            tabindex=${each === section ? 0 : -1}
            @click=${() => screen.go({ step: each.number, cell: "" })}
          >
            <span class="number">${each.number}</span><span class="title">${title_of(walk, each, query)}</span>
          </button>`,
      )}
    </div>
    <div class="bar-of-tools">
      <button class="plain" ?disabled=${at === 0} @click=${() => go_to(at - 1, false)}>Back</button>
      <button class="plain" ?disabled=${at === numbered.length - 1} @click=${() => go_to(at + 1, false)}>
        Next step
      </button>
      ${queries > 1 && !walk.tensors.has("heads")
        ? html`<label
            >Query
            <select
              @change=${(event: Event) =>
                screen.go({ query: Number((event.target as HTMLSelectElement).value), cell: "" })}
            >
              ${Array.from(
                { length: queries },
                (_, i) =>
                  html`<option value=${i} ?selected=${i === query}>${short(inputs[i] ?? `input ${i + 1}`)}</option>`,
              )}
            </select></label
          >`
        : nothing}
      ${motion_button(walk, query, screen)}
      ${facts_of(steps).map((fact) => html`<span class="fact">${fact}</span>`)}
    </div>
    ${screen.printing ? nothing : motion(walk, query, screen)}
    <div id="the-step" role="tabpanel" aria-labelledby="tab-${section.number}">
      ${screen.printing ? numbered.map(one) : one(section)}
    </div>`;
  return {
    body,
    name: `step-${section.number}`,
    costs: steps.cost ? [{ name: "", cost: steps.cost }] : [],
    tables: () =>
      windows.map((window) =>
        table_of(window.title, window.rows, window.columns, window.height, window.width, (r, c) =>
          value_at(window, r, c),
        ),
      ),
    picture: () => steps_picture(title_of(walk, section, query), before, now, screen),
    command: (report) => report,
  };
}
