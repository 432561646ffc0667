// What is seen of a large matrix: a square window that moves and is enlarged within it.
import type { HeadMap } from "../explanation";

const kLeastCells = 8; // that are seen at the most enlargement

// Its middle, in parts of the keys and of the queries, and how much it is enlarged.
export interface Seen {
  x: number;
  y: number;
  zoom: number;
}

export const between = (value: number, least: number, most: number): number => Math.max(least, Math.min(most, value));

export function parse_seen(text: string): Seen {
  const [zoom = 1, x = 0.5, y = 0.5] = text.split(",").map(Number);
  return [zoom, x, y].every(Number.isFinite) ? { zoom, x, y } : { zoom: 1, x: 0.5, y: 0.5 };
}

// As an address has it; nothing if all is seen.
export const format_seen = ({ zoom, x, y }: Seen): string =>
  zoom === 1 ? "" : [zoom, x, y].map((part) => Number(part.toFixed(5))).join(",");

// Within the matrix.
export function held({ x, y, zoom }: Seen, head: HeadMap | undefined): Seen {
  const finest = head?.levels[0];
  const most = finest ? Math.max(1, Math.max(finest.rows, finest.columns) / kLeastCells) : 1;
  const own = between(zoom, 1, most);
  const half = 0.5 / own;
  return { x: between(x, half, 1 - half), y: between(y, half, 1 - half), zoom: own };
}

// The finest level of which a cell is a pixel or more, where the window has so many.
export function level_for(seen: Seen, head: HeadMap, width: number): number {
  const found = head.levels.findIndex((one) => (width * seen.zoom) / Math.max(one.rows, one.columns) >= 1);
  return found < 0 ? head.levels.length - 1 : found;
}

// Where a part of the matrix is in a window of `side` pixels, and what part is at a share of the window.
export const pixel_of = (part: number, middle: number, zoom: number, side: number): number =>
  ((part - middle) * zoom + 0.5) * side;
export const part_at = (share: number, middle: number, zoom: number): number => middle + (share - 0.5) / zoom;
