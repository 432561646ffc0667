// The matrices of a step as one picture, to be saved.
import { svg, type TemplateResult } from "lit-html";
import { type Colors, css, kLetters, mixed } from "./colors";
import { cell_text, largest } from "./numbers";
import type { Screen } from "./screen";
import { value_at, type Window } from "./tensors";

const kCell = 56,
  kRow = 24,
  kGap = 28,
  kWidest = 1080,
  kMost = 16; // pixels; numbers of a row or column

export const kFont = "system-ui, -apple-system, 'Segoe UI', sans-serif";

interface Placed {
  window: Window;
  x: number;
  y: number;
  names: number; // width of the names of rows
}

const size_of = (window: Window): { names: number; width: number; height: number } => {
  const names =
    window.rows.length === window.height
      ? Math.min(140, 14 + 7 * Math.max(...window.rows.map((name) => name.length)))
      : 0;
  return {
    names,
    width: names + kCell * Math.min(kMost, window.width),
    height: 30 + kRow * Math.min(kMost, window.height),
  };
};

// One beside the other, in lines.
function placed(windows: readonly Window[], from: number): { all: Placed[]; bottom: number; right: number } {
  const all: Placed[] = [];
  let x = kGap,
    y = from,
    bottom = from,
    right = 0;
  for (const window of windows) {
    const size = size_of(window);
    if (x > kGap && x + size.width > kWidest) [x, y] = [kGap, bottom + kGap];
    all.push({ window, x, y, names: size.names });
    bottom = Math.max(bottom, y + size.height);
    right = Math.max(right, x + size.width);
    x += size.width + kGap;
  }
  return { all, bottom, right };
}

function drawn({ window, x, y, names }: Placed, colors: Colors, numbers: boolean): TemplateResult {
  const role = colors.roles[window.role];
  const height = Math.min(kMost, window.height),
    width = Math.min(kMost, window.width);
  const cells: TemplateResult[] = [];
  const values = Array.from({ length: height * width }, (_, i) => value_at(window, Math.floor(i / width), i % width));
  const most = largest(values) || 1;
  values.forEach((value, i) => {
    const r = Math.floor(i / width),
      c = i % width;
    const [left, top] = [x + names + c * kCell, y + 26 + r * kRow];
    const part = Number.isFinite(value) ? Math.abs(value) / most : 0;
    cells.push(
      svg`<rect x=${left} y=${top} width=${kCell} height=${kRow} fill=${css(mixed(colors.paper, role, part * 0.3))}></rect>`,
    );
    if (numbers)
      cells.push(
        svg`<text x=${left + kCell - 6} y=${top + 16} text-anchor="end" fill=${css(colors.ink)}>${cell_text(value)}</text>`,
      );
  });
  const rows = names > 0 ? window.rows.slice(0, height) : [];
  const cut = height < window.height || width < window.width ? " (part)" : "";
  return svg`<g font-size="12">
    <text x=${x} y=${y + 14} font-size="13" font-weight="600" fill=${css(role)}>${kLetters[window.role]} ${window.title}${cut}</text>
    ${rows.map((name, r) => svg`<text x=${x + names - 8} y=${y + 42 + r * kRow} text-anchor="end" fill=${css(colors.faint)}>${name}</text>`)}
    ${cells}
    <rect x=${x + names} y=${y + 26} width=${width * kCell} height=${height * kRow} fill="none" stroke=${css(role)} stroke-width="1.5" rx="4"></rect>
  </g>`;
}

export function steps_picture(
  title: string,
  before: readonly Window[],
  now: readonly Window[],
  screen: Screen,
): TemplateResult {
  const { colors, address } = screen;
  const kept = (windows: readonly Window[]): Window[] => windows.filter((window) => window.tensor.values !== null);
  const upper = placed(kept(before), 52),
    lower = placed(kept(now), before.length > 0 ? upper.bottom + kGap : 52);
  const width = Math.max(360, upper.right, lower.right) + kGap,
    height = lower.bottom + kGap;
  return svg`<svg width=${width} height=${height} viewBox="0 0 ${width} ${height}" font-family=${kFont}>
    <rect width=${width} height=${height} fill=${css(colors.paper)}></rect>
    <text x=${kGap} y="30" font-size="18" font-weight="700" fill=${css(colors.ink)}>${title}</text>
    ${[...upper.all, ...lower.all].map((one) => drawn(one, colors, address.numbers))}
  </svg>`;
}
