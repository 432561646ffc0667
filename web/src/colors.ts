// The colours of the page as numbers, for pictures: page.css holds them, dark, light and forced.
import { kRoles, type Role } from "./explanation";

export type Rgb = readonly [number, number, number];

export interface Colors {
  paper: Rgb;
  ink: Rgb;
  faint: Rgb; // text beside what matters
  line: Rgb;
  strong: Rgb;
  heat: readonly Rgb[]; // from no weight to all of it
  below: Rgb; // of numbers below 0
  more: Rgb; // of two runs: this one has more
  less: Rgb;
  roles: Record<Role, Rgb>;
  key: string; // differs where the colours differ
}

export const kLetters: Record<Role, string> = {
  input: "X",
  query: "Q",
  key: "K",
  value: "V",
  score: "S",
  weight: "W",
  output: "O",
  none: "",
};

export const css = ([r, g, b]: Rgb): string => `rgb(${Math.round(r)},${Math.round(g)},${Math.round(b)})`;

export function mixed(a: Rgb, b: Rgb, share: number): Rgb {
  const part = Math.max(0, Math.min(1, share));
  return [a[0] + (b[0] - a[0]) * part, a[1] + (b[1] - a[1]) * part, a[2] + (b[2] - a[2]) * part];
}

// Whichever of ink and paper can be read on this colour.
export function readable(colors: Colors, on: Rgb): Rgb {
  const light = ([r, g, b]: Rgb): number => {
    const [x, y, z] = [r, g, b].map((part) => ((part / 255 + 0.055) / 1.055) ** 2.4) as [number, number, number];
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (a: Rgb): number => {
    const [x, y] = [light(a), light(on)];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
  };
  return contrast(colors.ink) >= contrast(colors.paper) ? colors.ink : colors.paper;
}

// Weights from 0 to 1. The root keeps small ones apart; what is no number is shown as such.
export function heat(colors: Colors, weight: number): Rgb {
  if (!Number.isFinite(weight)) return colors.below;
  const at = Math.sqrt(Math.max(0, Math.min(1, weight))) * (colors.heat.length - 1);
  const from = Math.min(Math.floor(at), colors.heat.length - 2);
  return mixed(colors.heat[from] as Rgb, colors.heat[from + 1] as Rgb, at - from);
}

// Differences, as parts of the largest.
export function change(colors: Colors, part: number): Rgb {
  if (!Number.isFinite(part)) return colors.below;
  return mixed(colors.paper, part < 0 ? colors.less : colors.more, Math.sqrt(Math.min(1, Math.abs(part))));
}

// Numbers of either sign, as parts of the largest.
export function signed(colors: Colors, part: number, role: Role): Rgb {
  if (!Number.isFinite(part)) return colors.paper;
  const below = role === "output" ? colors.roles.query : colors.below; // ink and grey are too alike
  return mixed(colors.paper, part < 0 ? below : colors.roles[role], Math.abs(part) * 0.85);
}

export function read_colors(): Colors {
  const probe = document.createElement("span");
  probe.className = "probe";
  document.body.append(probe);
  const of = (name: string): Rgb => {
    probe.style.color = `var(--${name})`;
    const [r = 0, g = 0, b = 0] = (getComputedStyle(probe).color.match(/[\d.]+/g) ?? []).map(Number);
    return [r, g, b];
  };
  const roles = Object.fromEntries(kRoles.map((role) => [role, of(role)])) as Record<Role, Rgb>;
  const colors = {
    paper: of("paper"),
    ink: of("ink"),
    faint: of("faint"),
    line: of("line"),
    strong: of("strong"),
    heat: [of("heat-0"), of("heat-1"), of("heat-2"), of("heat-3")],
    below: of("below"),
    more: of("more"),
    less: of("less"),
    roles,
  };
  probe.remove();
  return { ...colors, key: JSON.stringify(colors) };
}
