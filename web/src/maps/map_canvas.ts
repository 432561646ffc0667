// <qkv-map>: a large matrix drawn from its pyramid, moved and enlarged by pointer, touch, wheel and keys.
import { css, heat, readable } from "../colors";
import type { HeadMap, MapLevel, Mapped } from "../explanation";
import { short } from "../heads/map";
import { legend } from "../legend";
import { cell_text, number_text } from "../numbers";
import { byte_at, level_scale, mean_of, numbers_under, Tiles } from "./pyramid";
import { render } from "lit-html";
import type { Screen } from "../screen";
import { between, format_seen, held, level_for, parse_seen, part_at, pixel_of, type Seen } from "./seen";

const kStep = 0.125; // of what is seen, for a key
const kSettled = 200; // milliseconds after the last turn of a wheel
const kNumber = 40; // pixels of a cell that has room for its number
const kClick = 4; // pixels that a pointer may move in a click

export interface Labels {
  queries: string[];
  keys: string[];
}

export interface Shown {
  maps: Mapped;
  labels: Labels | null; // of tokens
  head: HeadMap;
  screen: Screen;
  query: number; // -1: none
}

export class MapCanvas extends HTMLElement {
  private readonly canvas = document.createElement("canvas");
  private readonly axes = { keys: document.createElement("div"), queries: document.createElement("div") };
  private readonly below = document.createElement("div"); // what colours stand for
  private readonly said = document.createElement("output");
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private shown: Shown | null = null;
  private seen: Seen = { x: 0.5, y: 0.5, zoom: 1 };
  private tiles: Tiles | null = null;
  private colors_key = "";
  private frame = 0;
  private settling = 0;
  private moved = 0; // pixels, since the pointer went down
  private readonly observer = new ResizeObserver(() => this.ask());

  set view(shown: Shown) {
    const { colors, address } = shown.screen;
    if (this.tiles?.head !== shown.head || this.colors_key !== colors.key) {
      this.tiles = new Tiles(shown.head, shown.maps.tile, shown.maps.keys, colors);
      this.colors_key = colors.key;
    }
    this.shown = shown;
    this.seen = held(parse_seen(address.at), shown.head);
    const { queries, keys } = shown.maps;
    this.canvas.setAttribute(
      "aria-label",
      `Map of weights, ${queries} queries downwards and ${keys} keys across. Arrow keys move it, plus and minus enlarge it, 0 shows all, Enter chooses the query in the middle.`,
    );
    this.ask();
  }

  connectedCallback(): void {
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.said.className = "fact";
    const corner = document.createElement("div");
    corner.className = "corner";
    corner.append("keys \u2192", document.createElement("br"), "queries \u2193");
    for (const [name, axis] of Object.entries(this.axes)) axis.className = `axis of-${name}`;
    for (const one of [corner, ...Object.values(this.axes)]) one.ariaHidden = "true";
    this.replaceChildren(corner, this.axes.keys, this.axes.queries, this.canvas, this.below, this.said);
    this.observer.observe(this);
    const { canvas } = this;
    canvas.addEventListener("keydown", (event) => this.on_key(event));
    canvas.addEventListener("wheel", (event) => this.on_wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.on_down(event));
    canvas.addEventListener("pointermove", (event) => this.on_move(event));
    for (const end of ["pointerup", "pointercancel"] as const) {
      canvas.addEventListener(end, (event) => this.on_up(event));
    }
    for (const name of ["focus", "blur"] as const) canvas.addEventListener(name, () => this.ask());
  }

  disconnectedCallback(): void {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.settling);
  }

  // About the middle.
  enlarge(factor: number): void {
    this.go({ ...this.seen, zoom: this.seen.zoom * factor });
  }

  whole(): void {
    this.go({ x: 0.5, y: 0.5, zoom: 1 });
  }

  private move(to: Seen): void {
    this.seen = held(to, this.shown?.head);
    this.ask();
  }

  // And the address follows.
  private go(to: Seen): void {
    this.move(to);
    this.settle();
  }

  private settle(): void {
    const at = format_seen(this.seen);
    if (this.shown && this.shown.screen.address.at !== at) this.shown.screen.go({ at });
  }

  // What part of the matrix is under this place of the canvas.
  private place(x: number, y: number): { x: number; y: number } {
    const { width, height } = this.canvas.getBoundingClientRect();
    const { seen } = this;
    return { x: part_at(x / width, seen.x, seen.zoom), y: part_at(y / height, seen.y, seen.zoom) };
  }

  private on_key(event: KeyboardEvent): void {
    const { seen } = this;
    const step = kStep / seen.zoom;
    const keys: Record<string, () => void> = {
      ArrowLeft: () => this.go({ ...seen, x: seen.x - step }),
      ArrowRight: () => this.go({ ...seen, x: seen.x + step }),
      ArrowUp: () => this.go({ ...seen, y: seen.y - step }),
      ArrowDown: () => this.go({ ...seen, y: seen.y + step }),
      "+": () => this.enlarge(1.5),
      "=": () => this.enlarge(1.5),
      "-": () => this.enlarge(1 / 1.5),
      "0": () => this.whole(),
      Enter: () => this.choose(seen.y),
    };
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
    this.say(this.seen);
  }

  private on_wheel(event: WheelEvent): void {
    event.preventDefault();
    this.about(event.offsetX, event.offsetY, Math.exp(-event.deltaY * 0.002));
    clearTimeout(this.settling);
    this.settling = window.setTimeout(() => this.settle(), kSettled);
  }

  // What is under this place stays there.
  private about(x: number, y: number, factor: number): void {
    const fixed = this.place(x, y);
    const { zoom } = held({ ...this.seen, zoom: this.seen.zoom * factor }, this.shown?.head);
    const share = this.seen.zoom / zoom;
    this.move({
      x: fixed.x + (this.seen.x - fixed.x) * share,
      y: fixed.y + (this.seen.y - fixed.y) * share,
      zoom,
    });
  }

  private on_down(event: PointerEvent): void {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.moved = this.pointers.size > 1 ? Infinity : 0;
  }

  // One pointer moves the matrix, two enlarge it.
  private on_move(event: PointerEvent): void {
    const now = { x: event.offsetX, y: event.offsetY };
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.say(this.place(now.x, now.y));
      return;
    }
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const far = (a: { x: number; y: number }): number => Math.hypot(a.x - other.x, a.y - other.y);
      this.about((now.x + other.x) / 2, (now.y + other.y) / 2, far(now) / Math.max(1, far(before)));
    } else {
      const { width, height } = this.canvas.getBoundingClientRect();
      const { seen } = this;
      this.moved += Math.hypot(now.x - before.x, now.y - before.y);
      this.move({
        ...seen,
        x: seen.x - (now.x - before.x) / width / seen.zoom,
        y: seen.y - (now.y - before.y) / height / seen.zoom,
      });
    }
    this.pointers.set(event.pointerId, now);
  }

  private on_up(event: PointerEvent): void {
    if (!this.pointers.delete(event.pointerId)) return;
    if (event.type === "pointerup" && this.moved < kClick) this.choose(this.place(event.offsetX, event.offsetY).y);
    else this.settle();
  }

  private choose(y: number): void {
    if (!this.shown) return;
    const { queries } = this.shown.maps;
    this.shown.screen.go({ token: between(Math.floor(y * queries), 0, queries - 1) });
  }

  // The cell at this part of the matrix in words.
  private say({ x, y }: { x: number; y: number }): void {
    if (!this.shown) return;
    const { maps, head } = this.shown;
    const [finest, at] = [head.levels[0] as MapLevel, level_for(this.seen, head, this.canvas.width)];
    const level = head.levels[at] as MapLevel;
    const cell = (part: number, parts: number): number =>
      between(Math.floor((part * parts) / 2 ** at), 0, Math.ceil(parts / 2 ** at) - 1);
    const [row, column] = [cell(y, finest.rows), cell(x, finest.columns)];
    const range = ([from, to]: [number, number], name: string): string =>
      from === to ? `${name} ${from}` : `${name}s ${from} to ${to}`.replace("querys", "queries");
    const mean = number_text(mean_of(byte_at(level, maps.tile, row, column), level.largest));
    this.said.textContent = `${range(numbers_under(row, at, finest.rows, maps.queries), "query")}, ${range(
      numbers_under(column, at, finest.columns, maps.keys),
      "key",
    )}: mean weight about ${mean}; the largest here is ${number_text(level.largest)}`.replace(/^q/, "Q");
  }

  private ask(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.frame = 0;
    const { shown, canvas, seen } = this;
    const side = Math.round(canvas.clientWidth * Math.min(2, devicePixelRatio));
    if (!shown || side === 0) return;
    if (canvas.width !== side) [canvas.width, canvas.height] = [side, side];
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    context.imageSmoothingEnabled = false;
    context.fillStyle = css(shown.screen.colors.paper);
    context.fillRect(0, 0, side, side);
    const last = shown.head.levels.length - 1;
    const wanted = level_for(seen, shown.head, side);
    let complete = this.draw_level(context, last, side, Infinity);
    if (wanted !== last) complete = this.draw_level(context, wanted, side, 1);
    if (wanted === 0) this.draw_numbers(context, side);
    this.draw_axes();
    const { colors, address } = shown.screen;
    const level = shown.head.levels[wanted] as MapLevel;
    const most = level_scale(level, shown.maps.tile, shown.maps.keys);
    const scale = `${number_text(most)}${level.largest > most ? " or more" : ""}`;
    render(legend(colors.heat, "0", address.numbers ? scale : "most", "mean weight, drawn by its root"), this.below);
    if (shown.query >= 0) {
      const y = pixel_of((shown.query + 0.5) / shown.maps.queries, seen.y, seen.zoom, side);
      context.fillStyle = css(shown.screen.colors.roles.query);
      context.fillRect(0, y - 1, side, 2);
    }
    if (document.activeElement === canvas) {
      context.strokeStyle = css(shown.screen.colors.roles.key);
      context.lineWidth = 2;
      context.strokeRect(side / 2 - 8, side / 2 - 8, 16, 16);
    }
    if (!complete) this.ask();
  }

  // Numbers of queries and keys, or tokens, as many as have room.
  private draw_axes(): void {
    const { shown, seen, axes } = this;
    if (!shown) return;
    for (const [axis, middle, count, side] of [
      ["keys", seen.x, shown.maps.keys, "left"],
      ["queries", seen.y, shown.maps.queries, "top"],
    ] as const) {
      const most = this.canvas.clientWidth / (axis === "keys" ? 64 : 28);
      const least = count / seen.zoom / Math.max(1, most);
      const ten = 10 ** Math.floor(Math.log10(Math.max(1, least)));
      const step = [1, 2, 5, 10].map((one) => one * ten).find((one) => one >= least) ?? 1;
      const ticks: HTMLElement[] = [];
      for (let i = 0; i < count; i += step) {
        const at = pixel_of((i + 0.5) / count, middle, seen.zoom, 1);
        if (at < 0 || at > 1) continue;
        const tick = document.createElement("span");
        tick.textContent = short(shown.labels?.[axis][i] ?? String(i), 7);
        tick.style[side] = `${100 * at}%`;
        ticks.push(tick);
      }
      axes[axis].replaceChildren(...ticks);
    }
  }

  // In cells that are large enough.
  private draw_numbers(context: CanvasRenderingContext2D, side: number): void {
    const { shown, seen } = this;
    if (!shown?.screen.address.numbers) return;
    const [level, { tile, keys }, { colors }] = [shown.head.levels[0] as MapLevel, shown.maps, shown.screen];
    const [width, height] = [level.columns, level.rows].map((cells) => (side * seen.zoom) / cells) as [number, number];
    const size = side / this.canvas.clientWidth; // of a pixel of the page
    if (Math.min(width / kNumber, height / 18) < size) return;
    const scale = level_scale(level, tile, keys);
    context.font = `${11 * size}px system-ui, sans-serif`;
    context.textAlign = "center";
    for (let row = 0; row < level.rows; ++row) {
      const y = pixel_of((row + 0.5) / level.rows, seen.y, seen.zoom, side);
      if (y < 0 || y > side) continue;
      for (let column = 0; column < level.columns; ++column) {
        const x = pixel_of((column + 0.5) / level.columns, seen.x, seen.zoom, side);
        if (x < 0 || x > side) continue;
        const mean = mean_of(byte_at(level, tile, row, column), level.largest);
        context.fillStyle = css(readable(colors, heat(colors, mean / scale)));
        context.fillText(cell_text(mean), x, y + 4 * size);
      }
    }
  }

  // Paints at most so many tiles anew, for no frame to take long; whether there are all.
  private draw_level(context: CanvasRenderingContext2D, at: number, side: number, most: number): boolean {
    const { shown, tiles, seen } = this;
    if (!shown || !tiles) return true;
    const { rows, columns } = shown.head.levels[at] as MapLevel;
    const finest = shown.head.levels[0] as MapLevel;
    const { tile } = shown.maps;
    // A cell, as a part of the matrix. The last cells reach beyond it, where they join fewer parts.
    const [width, height] = [2 ** at / finest.columns, 2 ** at / finest.rows];
    const x_of = (part: number): number => pixel_of(part, seen.x, seen.zoom, side);
    const y_of = (part: number): number => pixel_of(part, seen.y, seen.zoom, side);
    context.save();
    context.beginPath();
    context.rect(x_of(0), y_of(0), seen.zoom * side, seen.zoom * side);
    context.clip();
    const across = Math.ceil(columns / tile);
    let left = most;
    let complete = true;
    for (let i = 0; i < across * Math.ceil(rows / tile); ++i) {
      const [row, column] = [Math.floor(i / across) * tile, (i % across) * tile];
      const [x, y] = [x_of(column * width), y_of(row * height)];
      const right = x_of(Math.min(column + tile, columns) * width);
      const bottom = y_of(Math.min(row + tile, rows) * height);
      if (x >= side || y >= side || right <= 0 || bottom <= 0) continue;
      if (!tiles.has(at, i) && left-- <= 0) {
        complete = false;
        continue;
      }
      context.drawImage(tiles.canvas(at, i), x, y, right - x, bottom - y);
    }
    context.restore();
    return complete;
  }
}

customElements.define("qkv-map", MapCanvas);
