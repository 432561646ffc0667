// Saves what is shown: numbers as CSV, pictures as SVG and PNG.
import { render, type TemplateResult } from "lit-html";

// A matrix with names, as lines of fields.
export interface Table {
  title: string;
  lines: string[][];
}

// Every digit; of a zero its sign, too.
const exact = (value: number): string => (Object.is(value, -0) ? "-0" : String(value));

export function table_of(
  title: string,
  rows: readonly string[],
  columns: readonly string[],
  height: number,
  width: number,
  at: (row: number, column: number) => number,
): Table {
  const names = Array.from({ length: width }, (_, c) => columns[c] ?? String(c + 1));
  const lines = Array.from({ length: height }, (_, r) => [
    rows[r] ?? String(r + 1),
    ...Array.from({ length: width }, (_x, c) => exact(at(r, c))),
  ]);
  return { title, lines: [[title, ...names], ...lines] };
}

const field = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);

// RFC 4180; an empty line between two tables.
export function csv_text(tables: readonly Table[]): string {
  return tables.map((table) => table.lines.map((line) => `${line.map(field).join(",")}\r\n`).join("")).join("\r\n");
}

function download(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export function save_csv(name: string, tables: readonly Table[]): void {
  download(`${name}.csv`, new Blob([csv_text(tables)], { type: "text/csv" }));
}

// The <svg> as a file of its own.
export function svg_text(picture: TemplateResult): string {
  const holder = document.createElement("div");
  render(picture, holder);
  const drawn = holder.querySelector("svg") as SVGSVGElement;
  drawn.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  for (const one of drawn.querySelectorAll("[tabindex]")) one.removeAttribute("tabindex");
  for (const one of drawn.querySelectorAll("a")) one.replaceWith(...one.childNodes);
  return new XMLSerializer().serializeToString(drawn).replace(/<!--.*?-->/gs, "");
}

export function save_svg(name: string, picture: TemplateResult): void {
  download(`${name}.svg`, new Blob([svg_text(picture)], { type: "image/svg+xml" }));
}

const kLargestSide = 8192; // pixels

// Twice as many pixels as on the screen.
export function save_png(name: string, picture: TemplateResult): void {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svg_text(picture)], { type: "image/svg+xml" }));
  image.onload = () => {
    const scale = Math.min(2, kLargestSide / Math.max(image.width, image.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(image.width * scale);
    canvas.height = Math.round(image.height * scale);
    (canvas.getContext("2d") as CanvasRenderingContext2D).drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(url);
    canvas.toBlob((blob) => blob && download(`${name}.png`, blob), "image/png");
  };
  image.src = url;
}
