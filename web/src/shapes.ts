// Shapes of pictures. They carry their own colours: a saved picture has no style sheet.
import { nothing, svg, type TemplateResult } from "lit-html";
import { css, type Rgb } from "./colors";

export const kFont = "system-ui, -apple-system, 'Segoe UI', sans-serif";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

interface Paint {
  fill?: Rgb | undefined;
  opacity?: number;
  stroke?: Rgb | undefined;
  thick?: number;
  round?: number;
  click?: ((event: MouseEvent) => void) | undefined;
}

// Without a fill it is empty, but can be clicked.
export const rect = ({ x, y, width, height }: Box, paint: Paint): TemplateResult =>
  svg`<rect x=${x} y=${y} width=${width} height=${height} rx=${paint.round ?? nothing}
    fill=${paint.fill ? css(paint.fill) : paint.click ? "transparent" : "none"} fill-opacity=${paint.opacity ?? nothing}
    stroke=${paint.stroke ? css(paint.stroke) : nothing} stroke-width=${paint.thick ?? nothing}
    class=${paint.click ? "target" : nothing} @click=${paint.click ?? nothing}></rect>`;

export const image = ({ x, y, width, height }: Box, url: string, sharp = true): TemplateResult =>
  svg`<image href=${url} x=${x} y=${y} width=${width} height=${height} preserveAspectRatio="none"
    image-rendering=${sharp ? "pixelated" : "auto"}></image>`;

interface Letters {
  fill: Rgb;
  anchor?: "start" | "middle" | "end";
  bold?: boolean | undefined;
  size?: number;
  turn?: number; // degrees
}

// Letters that run from right to left stay on their side of x.
export const text = (x: number, y: number, said: string, letters: Letters): TemplateResult =>
  svg`<text x=${x} y=${y} text-anchor=${letters.anchor ?? "start"} fill=${css(letters.fill)}
    font-weight=${letters.bold ? 700 : nothing} font-size=${letters.size ?? nothing} unicode-bidi="plaintext"
    transform=${letters.turn ? `rotate(${letters.turn} ${x} ${y})` : nothing}>${said}</text>`;

export const picture = (width: number, height: number, paper: Rgb, size: number, parts: unknown): TemplateResult =>
  svg`<svg width=${width} height=${height} viewBox="0 0 ${width} ${height}" font-family=${kFont} font-size=${size}>
    <rect width=${width} height=${height} fill=${css(paper)}></rect>${parts}</svg>`;
