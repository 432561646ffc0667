// The eight steps: the matrices of a step side by side with those they are computed from.
import { html, nothing, type TemplateResult } from "lit-html";
import type { Section, Steps, Tensor } from "./explanation";
import { grey_image } from "./grid";
import { short } from "./map";
import { matrix, type MatrixUse } from "./matrices";
import { clamp } from "./numbers";
import { derive } from "./products";
import { table_of } from "./save";
import type { Screen, Shown } from "./screen";
import { steps_picture } from "./steps_picture";
import { cell_id, parse_cell, value_at, walk_of_steps, type Walk, type Window, window_of, windows_of } from "./tensors";
import { pieces, terms_panel } from "./terms";

// Of which a step shows one query at a time.
const kPerQuery = ["query", "scores", "logits", "weights", "log_sum_exp", "weighted_values", "output"];

interface Stage {
  section: Section;
  before: Window[]; // what the step is computed from
  now: Window[];
}

const walks = new WeakMap<Steps, Walk>();
function walk_of(steps: Steps): Walk {
  const walk = walks.get(steps) ?? walk_of_steps(steps);
  walks.set(steps, walk);
  return walk;
}

// The tensors that the numbers of this one are computed from.
function sources(walk: Walk, window: Window): Tensor[] {
  const derivation = derive(walk, { name: window.tensor.name, index: window.index(0, 0) });
  const names = new Set(derivation?.terms.flatMap((term) => term.from.map((id) => parse_cell(id)?.name ?? "")));
  return [...names].flatMap((name) => walk.tensors.get(name) ?? []);
}

// Steps 4 to 7 of one head are about one query.
function about_one_query(walk: Walk, section: Section): boolean {
  return !walk.tensors.has("heads") && section.number >= 4 && section.number <= 7;
}

function queries_of(walk: Walk): number {
  return walk.tensors.size("query", -2);
}

function stage_of(walk: Walk, section: Section, query: number): Stage {
  const one = about_one_query(walk, section);
  const shown = (tensor: Tensor): Window[] => {
    if (one && kPerQuery.includes(tensor.name)) {
      const name = tensor.name === "weighted_values" ? tensor.name : (tensor.rows[query] ?? tensor.name);
      return [window_of(tensor, [query], tensor.shape.length === 3 ? name : `${tensor.name}, ${name}`)];
    }
    if (tensor.name === "weighted_values") {
      return [
        window_of(
          tensor,
          [query],
          `weighted_values, ${walk.tensors.get("query")?.rows[query] ?? `query ${query + 1}`}`,
        ),
      ];
    }
    return windows_of(tensor, (i) => `head ${i + 1}`);
  };
  // "logits of input 1" is a row of logits, if these are there.
  const whole = (tensor: Tensor): Tensor => {
    const name = / of /.test(tensor.name) && one ? tensor.name.replace(/ of .*$/s, "") : tensor.name;
    return walk.tensors.has(name) ? (walk.tensors.get(name) as Tensor) : tensor;
  };
  const own = [...new Set(section.blocks.flatMap((block) => block.tensors.map(whole)))];
  const now = own.flatMap(shown);
  const known = new Set(own);
  const before: Window[] = [];
  for (const window of now) {
    for (const tensor of sources(walk, window)) {
      if (known.has(tensor)) continue;
      known.add(tensor);
      before.push(...shown(tensor));
    }
  }
  return { section, before, now };
}

// The number that is chosen where the reader chose none: the first of the last matrix that is computed.
function first_choice(walk: Walk, stage: Stage): string {
  const computed = stage.now.filter(
    (window) =>
      window.height * window.width > 0 && derive(walk, { name: window.tensor.name, index: window.index(0, 0) }),
  );
  const window = stage.section.number <= 3 ? (computed[0] ?? stage.now[0]) : (computed.at(-1) ?? stage.now[0]);
  return window ? cell_id(window.tensor.name, window.index(0, 0)) : "";
}

function words(section: Section, skip: boolean): TemplateResult | typeof nothing {
  const lines = skip ? [] : section.blocks.flatMap((block) => block.lines);
  const [lead, ...rest] = lines;
  if (!lead) return nothing;
  return html`<p class="lead">${pieces(lead)}</p>
    ${rest.length > 0
      ? html`<details class="lines">
          <summary>Line by line</summary>
          <div class="scroll" tabindex="0" role="group" aria-label="Line by line">
            ${rest.map((line) => html`<p>${pieces(line)}</p>`)}
          </div>
        </details>`
      : nothing}`;
}

function remark(section: Section, use: MatrixUse): TemplateResult {
  const tensors = section.blocks.flatMap((block) => block.tensors);
  return html`<section class="remark">
    <h3>${section.title}</h3>
    <div class="scroll" tabindex="0" role="group" aria-label=${section.title}>
      ${section.blocks.flatMap((block) => block.lines).map((line) => html`<p>${pieces(line)}</p>`)}
    </div>
    ${tensors.length > 0
      ? html`<div class="matrices">
          ${tensors
            .flatMap((tensor) => windows_of(tensor, (i) => `head ${i + 1}`))
            .map((window) => matrix(window, use))}
        </div>`
      : nothing}
  </section>`;
}

// The words of a step about another query than the first are the page's own.
function title_of(walk: Walk, section: Section, query: number): string {
  const name = walk.tensors.get("inputs")?.rows[query] ?? `input ${query + 1}`;
  const own: Record<number, string> = {
    4: `Scores for ${name}`,
    5: `Softmax for ${name}`,
    6: `Weights times values for ${name}`,
    7: `Sum to output ${query + 1}`,
  };
  return query > 0 && about_one_query(walk, section) ? (own[section.number] ?? section.title) : section.title;
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
  walk: Walk,
  section: Section,
  query: number,
  screen: Screen,
  go_step: (by: 1 | -1) => void,
): TemplateResult {
  const stage = stage_of(walk, section, query);
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
  };
  return html`<article class="step" aria-labelledby="step-${section.number}">
    <h2 id="step-${section.number}">
      <span class="number">${section.number}</span> <bdi>${title_of(walk, section, query)}</bdi>
    </h2>
    ${words(section, query > 0 && about_one_query(walk, section))}
    <div class="stage">
      <div>
        ${pictures(section)}
        ${stage.before.length > 0
          ? html`<div class="matrices from">${stage.before.map((window) => matrix(window, use))}</div>
              <p class="becomes" aria-hidden="true">gives</p>`
          : nothing}
        <div class="matrices">${stage.now.map((window) => matrix(window, use))}</div>
      </div>
      ${terms_panel(walk, chosen, screen.address.numbers)}
    </div>
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
    html`${step_panel(walk, of, query, screen, leave)}
    ${remarks(of).map((remarked) => remark(remarked, { ...plain, chosen: screen.address.cell }))}`;
  const inputs = walk.tensors.get("inputs")?.rows ?? [];
  const shown = stage_of(walk, section, query);
  const windows = [...shown.before, ...shown.now].filter((window) => window.tensor.values !== null);

  const body = html` <div class="strip" role="tablist" aria-label="Steps" @keydown=${on_tab}>
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
      <span class="fact"
        >score ${steps.score}${steps.scale === 1 ? "" : `, x ${String(Number(steps.scale.toFixed(5)))}`}</span
      >
      ${steps.mask?.rules.map((rule) => html`<span class="fact">mask: ${rule}</span>`)}
      ${steps.substituted.length > 0
        ? html`<span class="fact">put in: ${steps.substituted.join(", ")}</span>`
        : nothing}
    </div>
    <div id="the-step" role="tabpanel" aria-labelledby="tab-${section.number}">
      ${screen.printing ? numbered.map(one) : one(section)}
    </div>`;
  return {
    body,
    name: `step-${section.number}`,
    tables: () =>
      windows.map((window) =>
        table_of(window.title, window.rows, window.columns, window.height, window.width, (r, c) =>
          value_at(window, r, c),
        ),
      ),
    picture: () => steps_picture(title_of(walk, section, query), shown.before, shown.now, screen),
    command: (report) => report,
  };
}
