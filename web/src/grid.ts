// Matrices as pictures of one pixel a number, painted by canvas once and kept.
import { change, type Colors, heat, mixed, type Rgb, signed } from "./colors";
import type { Role } from "./explanation";

type Kept = { key: string; url: string };
const kept = new WeakMap<object, Kept>();

// An image of `height` x `width` pixels as an address, painted again only if `key` differs.
function painted(
  owner: object,
  key: string,
  height: number,
  width: number,
  color: (row: number, column: number) => Rgb,
): string {
  const before = kept.get(owner);
  if (before?.key === key) return before.url;
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, width);
  canvas.height = Math.max(1, height);
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const image = context.createImageData(canvas.width, canvas.height);
  for (let row = 0; row < height; ++row) {
    for (let column = 0; column < width; ++column) {
      const at = 4 * (row * width + column);
      const [r, g, b] = color(row, column);
      image.data.set([r, g, b, 255], at);
    }
  }
  context.putImageData(image, 0, 0);
  const url = canvas.toDataURL("image/png");
  kept.set(owner, { key, url });
  return url;
}

// What rows of weights are drawn up to: the largest of the queries that see half as many keys as any, for one that sees a
// single key gives it all; at least four times an even weight, for even ones are to look even.
export function scale_from(seen: ArrayLike<number>, tops: ArrayLike<number>, keys: number): number {
  const half = Math.max(0, ...Array.from(seen)) / 2;
  return Math.min(1, Math.max(4 / keys, ...Array.from(tops).filter((top, i) => (seen[i] as number) >= half && top >= 0)));
}

const scales = new WeakMap<object, number>();

export function scale_of(weights: readonly (readonly number[])[], keys = weights[0]?.length ?? 1): number {
  const before = scales.get(weights);
  if (before) return before;
  const seen = weights.map((row) => row.filter((weight) => weight > 0).length);
  const now = scale_from(seen, weights.map((row) => Math.max(0, ...row)), keys);
  scales.set(weights, now);
  return now;
}

// Weights, up to the largest that is drawn. More than `most` rows or columns become means of blocks. Blocks that are hidden whole are grey.
export function heat_image(
  weights: number[][],
  colors: Colors,
  most = 4096,
  hides: ((row: number, column: number) => boolean) | null = null,
  keys = weights[0]?.length ?? 0, // that the columns are means over
): string {
  const height = weights.length,
    width = weights[0]?.length ?? 0;
  const step = Math.max(1, Math.ceil(Math.max(height, width) / most));
  const grey = mixed(colors.paper, colors.below, 0.45);
  const block = (row: number, column: number): number => {
    let sum = 0,
      cells = 0,
      seen = 0;
    for (let r = row * step; r < Math.min(height, (row + 1) * step); ++r) {
      for (let c = column * step; c < Math.min(width, (column + 1) * step); ++c, ++cells) {
        sum += weights[r]?.[c] ?? 0;
        if (!hides?.(r, c)) ++seen;
      }
    }
    return seen === 0 ? -1 : sum / cells; // -1: all hidden
  };
  const key = `${most} ${hides !== null} ${colors.key}`;
  const [rows, columns] = [Math.ceil(height / step), Math.ceil(width / step)];
  let means: number[][] = [];
  const color = (row: number, column: number): Rgb => {
    if (means.length === 0) {
      means = Array.from({ length: rows }, (_, r) => Array.from({ length: columns }, (_x, c) => block(r, c)));
    }
    const mean = means[row]?.[column] as number;
    return mean === -1 ? grey : heat(colors, mean / scale_of(means, keys));
  };
  return painted(weights, key, rows, columns, color);
}

// Differences of weights, of which `most` is the largest.
export function change_image(differences: number[][], most: number, colors: Colors): string {
  const [height, width] = [differences.length, differences[0]?.length ?? 0];
  return painted(differences, `change ${most} ${colors.key}`, height, width, (row, column) =>
    change(colors, (differences[row]?.[column] ?? 0) / (most || 1)),
  );
}

// Numbers of either sign, as parts of `largest`.
export function signed_image(
  owner: object,
  height: number,
  width: number,
  at: (row: number, column: number) => number,
  role: Role | "change",
  largest: number,
  colors: Colors,
): string {
  const part = (row: number, column: number): number => at(row, column) / (largest || 1);
  return painted(owner, `${role} ${height} ${width} ${largest} ${colors.key}`, height, width, (row, column) =>
    role === "change" ? change(colors, part(row, column)) : signed(colors, part(row, column), role),
  );
}

// A picture of bytes, rows of red, green and blue.
export function pixel_image(pixels: number[][][]): string {
  return painted(
    pixels,
    "pixels",
    pixels.length,
    pixels[0]?.length ?? 0,
    (row, column) => pixels[row]?.[column] as unknown as Rgb,
  );
}

// Numbers from 0 to 1 as shades of grey.
export function grey_image(pixels: number[][]): string {
  return painted(pixels, "grey", pixels.length, pixels[0]?.length ?? 0, (row, column) => {
    const shade = 255 * Math.max(0, Math.min(1, pixels[row]?.[column] ?? 0));
    return [shade, shade, shade];
  });
}
