// The matrices of a step as one picture, to be saved.
import type { TemplateResult } from "lit-html";
import { change, type Colors, kLetters, mixed } from "../colors";
import { short } from "../heads/map";
import { cell_text, largest, signed_text } from "../numbers";
import type { Screen } from "../screen";
import { picture, rect, text } from "../shapes";
import { value_at, type Window } from "./tensors";

const kCell = 56; // pixels
const kRow = 24;
const kGap = 28;
const kWidest = 1080;
const kMost = 16; // numbers of a row or column

interface Placed {
  window: Window;
  x: number;
  y: number;
  names: number; // width of the names of rows
}

function size_of(window: Window): { names: number; width: number; height: number } {
  const longest = Math.max(0, ...window.rows.map((name) => short(name).length));
  const names = window.rows.length === window.height ? 14 + 7 * longest : 0;
  const [width, height] = [Math.min(kMost, window.width), Math.min(kMost, window.height)];
  return { names, width: names + kCell * width, height: 30 + kRow * height };
}

// One beside the other, in lines.
function placed(windows: readonly Window[], from: number): { all: Placed[]; bottom: number; right: number } {
  const all: Placed[] = [];
  let [x, y, bottom, right] = [kGap, from, from, 0];
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

function drawn({ window, x, y, names }: Placed, colors: Colors, numbers: boolean): unknown[] {
  const role = colors.roles[window.role];
  const [height, width] = [Math.min(kMost, window.height), Math.min(kMost, window.width)];
  const values = Array.from({ length: height * width }, (_, i) => value_at(window, Math.floor(i / width), i % width));
  const most = largest(values) || 1;
  const cells = values.map((value, i) => {
    const box = {
      x: x + names + (i % width) * kCell,
      y: y + 26 + Math.floor(i / width) * kRow,
      width: kCell,
      height: kRow,
    };
    const part = Number.isFinite(value) ? value / most : 0;
    const said = window.change ? signed_text(cell_text(value), value) : cell_text(value);
    const number = text(box.x + kCell - 6, box.y + 16, said, { fill: colors.ink, anchor: "end" });
    const fill = window.change ? mixed(colors.paper, change(colors, part), 0.5) : mixed(colors.paper, role, Math.abs(part) * 0.3);
    return [rect(box, { fill }), numbers ? number : []];
  });
  const rows = names > 0 ? window.rows.slice(0, height) : [];
  const cut = height < window.height || width < window.width ? " (part)" : "";
  return [
    text(x, y + 14, `${kLetters[window.role]} ${window.title}${cut}`, { fill: role, bold: true, size: 13 }),
    rows.map((name, r) => text(x + names - 8, y + 42 + r * kRow, short(name), { fill: colors.faint, anchor: "end" })),
    cells,
    rect(
      { x: x + names, y: y + 26, width: width * kCell, height: height * kRow },
      { stroke: role, thick: 1.5, round: 4 },
    ),
  ];
}

export function steps_picture(
  title: string,
  before: readonly Window[],
  now: readonly Window[],
  screen: Screen,
): TemplateResult {
  const { colors, address } = screen;
  const kept = (windows: readonly Window[]): Window[] => windows.filter((window) => window.tensor.values !== null);
  const upper = placed(kept(before), 52);
  const lower = placed(kept(now), before.length > 0 ? upper.bottom + kGap : 52);
  const width = Math.max(360, upper.right, lower.right) + kGap;
  return picture(width, lower.bottom + kGap, colors.paper, 12, [
    text(kGap, 30, title, { fill: colors.ink, bold: true, size: 18 }),
    [...upper.all, ...lower.all].map((one) => drawn(one, colors, address.numbers)),
  ]);
}
