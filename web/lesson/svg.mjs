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

// Cells side by side, each with its share of the colour of the role: [x, y, share].
function tiles(cells, width, height, role) {
  const by_share = new Map();
  for (const [x, y, share] of cells) {
    const key = share.toFixed(2);
    by_share.set(key, `${by_share.get(key) ?? ""}M${short(x)} ${short(y)}h${width}v${height}h-${width}z`);
  }
  const paths = [...by_share].map(([share, path]) => `<path fill-opacity="${share}" d="${path}"/>`);
  return `<g class="p-role role-${role}">${paths.join("")}</g>`;
}

// Square pictures [x, y, rows]: their grounds, and the pixels that are not black in three shades, of a row those alike in
// one stroke.
export function pixels(pictures, size) {
  const side = pictures[0][2].length;
  const paths = ["", "", "", ""];
  for (const [x, y, rows] of pictures) {
    paths[0] += `M${x} ${y + (side * size) / 2}h${side * size}`;
    for (const [i, row] of rows.map((values) => values.map((value) => Math.round(3 * value))).entries()) {
      for (let j = 0, end = 0; j < side; j = end) {
        while (end < side && row[end] === row[j]) ++end;
        if (row[j] > 0) paths[row[j]] += `M${x + j * size} ${y + (i + 0.5) * size}h${(end - j) * size}`;
      }
    }
  }
  const drawn = paths.map(
    (path, shade) =>
      `<path stroke-width="${shade ? size : side * size}" opacity="${shade ? (shade / 3).toFixed(2) : 0.06}" d="${path}"/>`,
  );
  return `<g class="role-none" stroke="var(--role)">${drawn.join("")}</g>`;
}

// A matrix of numbers with its name above; `shade` gives the share of colour of a cell.
export function matrix(x, y, name, rows, role, options = {}) {
  const { cell = 24, height = 22, shade = () => 0.1, show = number, size = 11 } = options;
  const all = rows.flatMap((row, i) => row.map((value, j) => [x + j * cell, y + i * height, shade(value, i, j), show(value)]));
  const numbers = all.map(
    ([left, top, , shown]) => `<text x="${short(left + cell / 2 - 1)}" y="${short(top + height / 2 + 3)}">${shown}</text>`,
  );
  return [
    name && text(x, y - 6, name, { role, is: "p-role p-strong" }),
    tiles(all, cell - 2, height - 2, role),
    `<g class="p-ink p-number" font-size="${size}" text-anchor="middle">${numbers.join("")}</g>`,
  ];
}

// The same of weights: the darker, the more, and light enough for the number on it.
export const weighed = (weight) => 0.05 + 0.5 * weight;
export const shares = (x, y, weights, cell) =>
  matrix(x, y, "", weights, "weight", { cell, height: cell, shade: weighed, show: (weight) => weight.toFixed(2), size: 10.5 });

// A map without numbers: the darker, the more.
export function map(x, y, values, size, role = "weight") {
  const cells = values.flatMap((row, i) => row.map((value, j) => [x + j * size, y + i * size, 0.06 + 0.94 * value]));
  return tiles(cells, size - 1, size - 1, role);
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
