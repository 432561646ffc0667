// Where the page that computes begins: a sentence, the whole computation for it, and three ways to go on.
import { html, nothing, type TemplateResult } from "lit-html";
import { format_address } from "./address";
import type { Report, Steps } from "./explanation";
import type { Screen, Shown } from "./screen";
import { sentence_form } from "./live/sentence_form";
import { overview } from "./steps/overview";
import { walk_of } from "./steps/stage";

export function start_view(report: Report, screen: Screen): Shown {
  const steps = report.explanations.find((one): one is Steps => one.kind === "steps");
  const translates = report.explanations.findIndex((one) => one.kind === "heads" && one.translation !== null);
  const of_steps = steps ? report.explanations.indexOf(steps) : 0;
  const way = (name: string, about: string, patch: Parameters<Screen["go"]>[0]): TemplateResult =>
    html`<a class="way" href=${format_address({ ...screen.address, ...patch })}><strong>${name}</strong><span>${about}</span></a>`;
  const drawn = steps ? overview(walk_of(steps), 8, screen.address.query, screen) : null;
  const body = html`<section class="card start" aria-label="Start">
      <h2>How attention works, in this page</h2>
      <p class="lead">
        Attention lets every word of a sentence take what it needs from every other word. This page computes it while you
        watch: nothing is sent anywhere.
      </p>
      ${steps && screen.live ? sentence_form(steps, screen, screen.live) : nothing}
      ${drawn ? html`<div class="overview" role="group" aria-label="The whole computation">${drawn}</div>` : nothing}
    </section>
    <div class="ways">
      ${steps ? way("See attention step by step", "Eight steps from words to outputs. Choose a number to see what it is made of, and change it.", { view: "steps", of: of_steps, step: 1 }) : nothing}
      ${translates >= 0 ? way("Translate and see why", "Type a sentence: which words each translated word came from, and what else it might have been.", { view: "translation", of: translates }) : nothing}
      ${way("Train one", "A small Transformer learns twenty phrases in this page. Watch its loss fall and its heads form.", { view: "training" })}
    </div>`;
  return { body, name: "start", tables: () => [], picture: () => drawn, command: (line) => line };
}
