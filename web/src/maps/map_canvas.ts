// <qkv-map>: a large matrix drawn from its pyramid, moved and enlarged by pointer, touch, wheel and keys.
import { css } from "../colors";
import type { HeadMap, MapLevel, Mapped } from "../explanation";
import { number_text } from "../numbers";
import { byte_at, mean_of, numbers_under, Tiles } from "./pyramid";
import type { Screen } from "../screen";
import { between, format_seen, held, level_for, parse_seen, part_at, pixel_of, type Seen } from "./seen";

const kStep = 0.125; // of what is seen, for a key
const kSettled = 200; // milliseconds after the last turn of a wheel
const kClick = 4; // pixels that a pointer may move in a click

export interface Shown {
  maps: Mapped;
  head: HeadMap;
  screen: Screen;
  query: number; // -1: none
}

export class MapCanvas extends HTMLElement {
  private readonly canvas = document.createElement("canvas");
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
      this.tiles = new Tiles(shown.head, shown.maps.tile, colors);
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
    this.replaceChildren(this.canvas, this.said);
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
