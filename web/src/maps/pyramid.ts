// A pyramid of block averages: which cell lies where, and its tiles as pictures.
import { type Colors, heat, type Rgb } from "../colors";
import type { HeadMap, MapLevel } from "../explanation";
import { scale_from } from "../grid";

const kLargestByte = 254; // 255 is not a number

// A byte is the root of a mean as a part of the largest one.
export function mean_of(byte: number, largest: number): number {
  return byte > kLargestByte ? NaN : largest * (byte / kLargestByte) ** 2;
}

export function byte_at(level: MapLevel, tile: number, row: number, column: number): number {
  const across = Math.ceil(level.columns / tile);
  const [y, x] = [Math.floor(row / tile), Math.floor(column / tile)];
  const width = Math.min(tile, level.columns - x * tile);
  return (level.tiles[y * across + x] as Uint8Array)[(row % tile) * width + (column % tile)] as number;
}

// The numbers that part `at` of `parts` equal ones holds, of `count`: from and to.
export function numbers_of(at: number, parts: number, count: number): [number, number] {
  return [Math.ceil((at * count) / parts), Math.ceil(((at + 1) * count) / parts) - 1];
}

// Those of a cell, of which a level above the finest joins 2^level parts.
export function numbers_under(at: number, level: number, parts: number, count: number): [number, number] {
  const from = at * 2 ** level;
  const to = Math.min(from + 2 ** level, parts) - 1;
  return [numbers_of(from, parts, count)[0], numbers_of(to, parts, count)[1]];
}

// The means of a level as rows of numbers.
export function means_of(level: MapLevel, tile: number): number[][] {
  return Array.from({ length: level.rows }, (_, row) =>
    Array.from({ length: level.columns }, (_x, column) => mean_of(byte_at(level, tile, row, column), level.largest)),
  );
}

const scales = new WeakMap<MapLevel, number>();

// The mean that is drawn strongest.
export function level_scale(level: MapLevel, tile: number, keys: number): number {
  const before = scales.get(level);
  if (before) return before;
  const [seen, tops] = [new Uint32Array(level.rows), new Float64Array(level.rows)];
  for (let row = 0; row < level.rows; ++row) {
    let top = 0;
    for (let column = 0; column < level.columns; ++column) {
      const byte = byte_at(level, tile, row, column);
      if (byte === 0 || byte > kLargestByte) continue;
      ++(seen[row] as number);
      if (byte > top) top = byte;
    }
    tops[row] = mean_of(top, level.largest);
  }
  const now = scale_from(seen, tops, keys);
  scales.set(level, now);
  return now;
}

function palette(colors: Colors, { largest }: MapLevel, scale: number): Uint32Array {
  const words = new Uint32Array(256);
  const word = ([r, g, b]: Rgb): number => (255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r);
  for (let byte = 0; byte < 256; ++byte) words[byte] = word(heat(colors, mean_of(byte, largest) / scale));
  return words;
}

// The tiles of one head as canvases of a pixel a cell, painted once each.
export class Tiles {
  private readonly painted = new Map<string, HTMLCanvasElement>();
  private readonly words: Uint32Array[]; // of each level

  constructor(
    readonly head: HeadMap,
    readonly tile: number,
    keys: number,
    colors: Colors,
  ) {
    this.words = head.levels.map((level) => palette(colors, level, level_scale(level, tile, keys)));
  }

  has(level: number, at: number): boolean {
    return this.painted.has(`${level} ${at}`);
  }

  canvas(level: number, at: number): HTMLCanvasElement {
    const name = `${level} ${at}`;
    const before = this.painted.get(name);
    if (before) return before;
    const { rows, columns, tiles } = this.head.levels[level] as MapLevel;
    const across = Math.ceil(columns / this.tile);
    const canvas = document.createElement("canvas");
    canvas.width = Math.min(this.tile, columns - (at % across) * this.tile);
    canvas.height = Math.min(this.tile, rows - Math.floor(at / across) * this.tile);
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    const image = context.createImageData(canvas.width, canvas.height);
    const pixels = new Uint32Array(image.data.buffer);
    const bytes = tiles[at] as Uint8Array;
    for (let i = 0; i < pixels.length; ++i) pixels[i] = this.words[level]?.[bytes[i] as number] as number;
    context.putImageData(image, 0, 0);
    this.painted.set(name, canvas);
    return canvas;
  }
}
