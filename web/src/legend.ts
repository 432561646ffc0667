// What colours stand for: a ramp from the least to the most.
import { html, type TemplateResult } from "lit-html";
import { css, type Rgb } from "./colors";

export const legend = (stops: readonly Rgb[], least: string, most: string, about = ""): TemplateResult =>
  html`<div class="legend" aria-hidden="true">
    <span class="figure">${least}</span
    ><span class="ramp" .style=${`background:linear-gradient(to right,${stops.map(css).join(",")})`}></span
    ><span class="figure">${most}</span><span class="shape">${about}</span>
  </div>`;
