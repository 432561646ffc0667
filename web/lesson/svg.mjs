// Pieces of a picture: texts, boxes, arrows, matrices and maps of weights, 360 units wide, so that a telephone shows
// them at their size.
import { readFileSync } from "node:fs";

export const kWidth = 360;
const here = new URL("../src/", import.meta.url);
const css = (name) => readFileSync(new URL(name, here), "utf8");

export const escaped = (text) =>
  String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
const short = (x) => String(Number(x.toFixed(1)));
const role_class = (role) => (role ? ` role-${role}` : "");

export function text(x, y, content, { role = "", size = 12, at = "start", is = role ? "p-role" : "p-ink" } = {}) {
  const anchor = at === "start" ? "" : ` text-anchor="${at}"`;
  return `<text x="${short(x)}" y="${short(y)}" font-size="${size}"${anchor} class="${is}${role_class(role)}">${escaped(content)}</text>`;
}

// Filled by this share of the colour of its role, with an edge of it.
export function box(x, y, width, height, role, share = 0.12, round = 5) {
  const place = `x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" rx="${round}"`;
  return `<rect ${place} class="p-role role-${role}" fill-opacity="${share}"/><rect ${place} class="p-edge role-${role}"/>`;
}

export function line(points, role = "", opacity = 1) {
  const is = role ? `p-edge role-${role}` : "p-line";
  const path = points.map(([x, y], i) => `${i ? "L" : "M"}${short(x)} ${short(y)}`).join("");
  return `<path d="${path}" class="${is}"${opacity === 1 ? "" : ` opacity="${opacity}"`}/>`;
}

export function arrow([x, y], [to_x, to_y], role = "") {
  const angle = Math.atan2(to_y - y, to_x - x);
  const wing = (turn) => [to_x - 6 * Math.cos(angle + turn), to_y - 6 * Math.sin(angle + turn)];
  return line([[x, y], [to_x, to_y]], role) + line([wing(0.5), [to_x, to_y], wing(-0.5)], role);
}

// Numbers as the terminal has them.
export const number = (x) => (x === "-inf" ? "-inf" : Number.isInteger(x) ? String(x) : x.toFixed(5));

// A matrix of numbers with its name above; `shade` gives the share of colour of a cell.
export function matrix(x, y, name, rows, role, { cell = 24, shade = () => 0.1, show = number, size = 11 } = {}) {
  const cells = rows.flatMap((row, i) =>
    row.map((value, j) => {
      const left = x + j * cell,
        top = y + i * 22;
      return (
        `<rect x="${short(left)}" y="${short(top)}" width="${short(cell - 2)}" height="20" rx="3" class="p-role role-${role}" fill-opacity="${shade(value, i, j).toFixed(2)}"/>` +
        text(left + cell / 2 - 1, top + 14, show(value), { size, at: "middle", is: "p-ink p-number" })
      );
    }),
  );
  return text(x, y - 6, name, { role, is: "p-role p-strong" }) + cells.join("");
}

// Weights as a map: the darker, the more. Hidden pairs are crossed out.
export function map(x, y, weights, size, role = "weight", hidden = () => false) {
  return weights
    .flatMap((row, i) =>
      row.map((weight, j) => {
        const left = x + j * size,
          top = y + i * size,
          place = `x="${short(left)}" y="${short(top)}" width="${size - 1}" height="${size - 1}"`;
        if (hidden(i, j))
          return line([[left + 3, top + 3], [left + size - 4, top + size - 4]]) + `<rect ${place} class="p-line" opacity="0.6"/>`;
        return `<rect ${place} class="p-role role-${role}" fill-opacity="${(0.06 + 0.94 * weight).toFixed(2)}"/>`;
      }),
    )
    .join("");
}

// A bar with its name before and its number behind it.
export function bar(x, y, name, value, length, role, shown) {
  return (
    text(x, y + 11, name, { size: 11 }) +
    `<rect x="${x + 52}" y="${y}" width="${short(Math.max(1, length))}" height="14" rx="2" class="p-role role-${role}"/>` +
    text(x + 57 + length, y + 11, shown, { size: 11, is: "p-ink p-number" })
  );
}

// The colours of the page, dark and light.
function colors() {
  const of = (side) =>
    [...css("page.css").matchAll(/--([\w-]+): light-dark\((#\w+), (#\w+)\);/g)]
      .map(([, name, light, dark]) => `--${name}:${side === "light" ? light : dark}`)
      .filter((each) => /^--(ink|faint|paper|line|strong|input|query|key|value|score|weight|output|none):/.test(each))
      .join(";");
  const roles = ["input", "query", "key", "value", "score", "weight", "output", "none"];
  return (
    `svg{${of("light")};--mono:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}` +
    `@media(prefers-color-scheme:dark){svg{${of("dark")}}}` +
    roles.map((role) => `.role-${role}{--role:var(--${role})}`).join("")
  );
}

export function picture(height, parts) {
  const rules = css("lesson_picture.css").replace(/\/\*.*?\*\//gs, "").replace(/\s+/g, " ").trim();
  return `<svg xmlns="http://www.w3.org/2000/svg" width="540" height="${height * 1.5}" viewBox="0 0 ${kWidth} ${height}" font-family="system-ui, 'Segoe UI', Roboto, 'Noto Sans', sans-serif">
<style>${colors()}${rules}</style>
<rect width="${kWidth}" height="${height}" rx="8" class="p-paper"/>
${parts.flat(9).join("\n")}
</svg>
`;
}
