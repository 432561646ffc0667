// Maps of attention over long inputs, read and checked; their bytes become numbers when they are drawn.
import { unzlibSync } from "fflate";
import * as check from "./check";
import type { Json } from "./check";
import type { HeadMap, MapLevel, Mapped, Maps } from "../explanation";
import { common_of, cost_of } from "./read_common";

const kBase64 = /^[A-Za-z0-9+/]*={0,2}$/;

// So many bytes in base64.
function bytes_of(value: unknown, where: string, count: number): string {
  const text = check.text_of(value, where);
  if (text.length !== Math.ceil(count / 3) * 4 || !kBase64.test(text)) {
    check.refuse(`${where} must be ${count} bytes in base64`);
  }
  return text;
}

function size_of(value: unknown, where: string): number {
  const size = check.count_of(value, where);
  return size > 0 ? size : check.refuse(`${where} must be 1 or more`);
}

function bytes_of_text(text: string): Uint8Array {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; ++i) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

// Null: they are not.
function inflated(text: string): Uint8Array | null {
  try {
    return unzlibSync(bytes_of_text(text));
  } catch {
    return null;
  }
}

function level_of(value: unknown, where: string, tile: number): MapLevel {
  const object = check.object_of(value, where);
  const rows = size_of(object.rows, `${where}.rows`);
  const columns = size_of(object.columns, `${where}.columns`);
  const across = Math.ceil(columns / tile);
  const side = (at: number, size: number): number => Math.min(tile, size - at * tile);
  const tiles = check.list_of(object.tiles, `${where}.tiles`, (one, at, i) => {
    const bytes = inflated(check.text_of(one, at));
    const count = side(Math.floor(i / across), rows) * side(i % across, columns);
    return bytes?.length === count ? bytes : check.refuse(`${at} must be ${count} bytes, deflated, in base64`);
  });
  if (tiles.length !== across * Math.ceil(rows / tile)) check.refuse(`${where} has ${tiles.length} tiles`);
  return { rows, columns, largest: check.number_of(object.largest, `${where}.largest`), tiles };
}

export function head_map_of(value: unknown, where: string, of: Mapped): HeadMap {
  const { queries, keys, tile } = of;
  const size = of.dtype === "f64" ? 8 : 4;
  const object = check.object_of(value, where);
  const levels = check.list_of(object.levels, `${where}.levels`, (level, at) => level_of(level, at, tile));
  levels.forEach(({ rows, columns }, l) => {
    const above = levels[l - 1];
    const halved = (side: number): number => Math.ceil(side / 2);
    const fits = above ? rows === halved(above.rows) && columns === halved(above.columns) : true;
    if (!fits || rows > queries || columns > keys) check.refuse(`${where}.levels[${l}] has another size`);
  });
  if (levels.length === 0) check.refuse(`${where}.levels must have an entry`);
  return {
    levels,
    top: check.null_or(object.top, `${where}.top`, (top, at) => {
      const kept = check.object_of(top, at);
      const count = size_of(kept.count, `${at}.count`);
      return {
        count,
        keys: bytes_of(kept.keys, `${at}.keys`, 4 * queries * count),
        weights: bytes_of(kept.weights, `${at}.weights`, size * queries * count),
      };
    }),
    rows: check.list_of(object.rows, `${where}.rows`, (entry, at) => {
      const row = check.object_of(entry, at);
      const query = check.count_of(row.query, `${at}.query`);
      if (query >= queries) check.refuse(`${at}.query must be one of ${queries}`);
      return { query, weights: bytes_of(row.weights, `${at}.weights`, size * keys) };
    }),
  };
}

export const tile_of = (value: Json): number => size_of(value.tile, "tile");

export function maps_of(value: Json): Maps {
  const common = common_of(value);
  const of: Mapped = {
    queries: size_of(value.queries, "queries"),
    keys: size_of(value.keys, "keys"),
    tile: tile_of(value),
    dtype: common.dtype === "f64" ? "f64" : "f32",
  };
  const heads = check.list_of(value.heads, "heads", (entry, where) => {
    const object = check.object_of(entry, where);
    return {
      batch: check.count_of(object.batch, `${where}.batch`),
      head: check.count_of(object.head, `${where}.head`),
      ...head_map_of(object, where, of),
    };
  });
  if (heads.length === 0) check.refuse("heads must have an entry");
  return { kind: "maps", ...common, ...of, whole: check.flag_of(value.whole, "whole"), cost: cost_of(value.cost), heads };
}

const decoded = new Map<string, Uint8Array>();
const kMostDecoded = 48;

// The last ones are kept.
function bytes_in(text: string): Uint8Array {
  const bytes = decoded.get(text) ?? bytes_of_text(text);
  if (decoded.size >= kMostDecoded) decoded.delete(decoded.keys().next().value as string);
  decoded.set(text, bytes);
  return bytes;
}

export const integers_in = (text: string): Int32Array => new Int32Array(bytes_in(text).buffer);
export const numbers_in = (text: string, dtype: "f32" | "f64"): Float32Array | Float64Array =>
  dtype === "f64" ? new Float64Array(bytes_in(text).buffer) : new Float32Array(bytes_in(text).buffer);
