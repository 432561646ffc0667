// The view of the training: pairs, loss by update, and the translation of a text by the model as it is.
import { html, nothing, svg, type TemplateResult } from "lit-html";
import { css } from "../colors";
import { number_text } from "../numbers";
import { table_of } from "../save";
import type { Screen, Shown } from "../screen";
import { picture, text } from "../shapes";
import { translation_view } from "../translation";
import { kMostUpdates, type Training } from "./training";

const kLeft = 44;
const kBelow = 26;

function loss_curve(losses: readonly number[], screen: Screen): TemplateResult {
  const most = Math.max(1, ...losses);
  const [width, height] = screen.narrow ? [340, 150] : [460, 180];
  const x = (i: number): number => kLeft + ((width - kLeft - 12) * i) / (kMostUpdates - 1);
  const y = (loss: number): number => 10 + (height - kBelow - 10) * (1 - loss / most);
  const { colors } = screen;
  const ticks = [0, most / 2, most];
  return picture(
    width,
    height,
    colors.paper,
    12,
    svg`${ticks.map(
      (tick) => svg`<line x1=${kLeft} x2=${width - 12} y1=${y(tick)} y2=${y(tick)} stroke=${css(colors.line)}></line>
        ${text(kLeft - 6, y(tick) + 4, number_text(tick, 1), { anchor: "end", fill: colors.faint })}`,
    )}
    ${[1, 50, 100, 150, 200].map((update) =>
      text(x(update - 1), height - 8, String(update), { anchor: "middle", fill: colors.faint }),
    )}
    <polyline fill="none" stroke=${css(colors.roles.weight)} stroke-width="2"
      points=${losses.map((loss, i) => `${x(i).toFixed(1)},${y(loss).toFixed(1)}`).join(" ")}></polyline>`,
  );
}

export function training_view(training: Training, screen: Screen): Shown {
  const { losses, heads } = training;
  const curve = loss_curve(losses, screen);
  const last = losses.at(-1);
  const below = heads?.translation ? translation_view(heads, heads.translation, { ...screen, live: null }) : null;
  const body = html`<section class="card live" aria-label="Learning">
      <h2>A Transformer learns these pairs</h2>
      <p class="hint">
        64 wide, 4 heads, one layer of the encoder and one of the decoder; every number is computed in this page.
      </p>
      <div class="split wide-first">
        <label class="pairs"
          >Pairs: text, tab, translation
          <textarea
            rows="10"
            spellcheck="false"
            .value=${training.pairs}
            ?disabled=${training.running}
            @change=${(event: Event) => {
              training.pairs = (event.target as HTMLTextAreaElement).value.trimEnd();
            }}
          ></textarea>
        </label>
        <div>
          <div class="bar-of-tools">
            ${training.running
              ? html`<button class="plain" @click=${() => training.stop()}>Stop</button>`
              : html`<button class="plain" @click=${() => void training.start()}>
                  ${losses.length === 0 || losses.length >= kMostUpdates ? "Learn" : "Go on"}
                </button>`}
            <label
              >Look at
              <input
                class="phrase"
                autocomplete="off"
                .value=${training.text}
                @change=${(event: Event) => {
                  training.text = (event.target as HTMLInputElement).value;
                }}
            /></label>
          </div>
          <p role="status">
            ${last === undefined ? "Nothing learned yet" : `Update ${losses.length}: loss ${number_text(last, 3)}`}${heads?.translation
              ? html`. ${training.text} gives <strong><bdi>${heads.translation.target_text}</bdi></strong>`
              : nothing}
          </p>
          <div class="large" role="img" aria-label="Loss by update">${curve}</div>
        </div>
      </div>
      ${training.fault ? html`<p class="fault" role="alert">${training.fault}</p>` : nothing}
    </section>
    ${below?.body ?? nothing}`;
  return {
    body,
    name: "training",
    tables: () => [
      table_of("loss", losses.map((_, i) => String(i + 1)), ["loss"], losses.length, 1, (r) => losses[r] ?? NaN),
    ],
    picture: () => curve,
    command: (report) => report,
  };
}
