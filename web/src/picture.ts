// Where a Vision Transformer looks: the picture with the weights of its patches over it, by rollout and by each head.
import { html, nothing, type TemplateResult } from "lit-html";
import { type Colors, mixed, type Rgb } from "./colors";
import type { Picture } from "./explanation";
import { pixel_image } from "./grid";
import { legend } from "./legend";
import { moved } from "./steps/matrices";
import { clamp, largest, number_text, share_text, signed_text } from "./numbers";
import { command_with } from "./command";
import { difference_of, largest_of, same_names } from "./runs/difference";
import { cannot, change_legend } from "./runs/runs";
import { table_of } from "./save";
import type { Screen, Shown } from "./screen";
import { type Box, image, picture as framed_picture, rect } from "./shapes";

const kLarge = 460,
  kSmall = 96; // pixels

// From nothing to the largest weight, as seen over any picture: dark, violet, orange, light yellow.
const kHeat: readonly Rgb[] = [
  [10, 6, 36],
  [120, 28, 109],
  [237, 105, 37],
  [252, 255, 164],
];
function hot(part: number): Rgb {
  const at = Math.max(0, Math.min(1, part)) * (kHeat.length - 1);
  const from = Math.min(Math.floor(at), kHeat.length - 2);
  return mixed(kHeat[from] as Rgb, kHeat[from + 1] as Rgb, at - from);
}

const kOver = 0.6; // of the colours over the picture, which stays visible
const kWhite: Rgb = [255, 255, 255];
const kBlack: Rgb = [0, 0, 0];

interface Layer {
  id: string; // "rollout" or "LAYER.HEAD"
  title: string;
  patches: number[][];
  least: number; // what is drawn as nothing
  most: number; // what is drawn hottest
  changes: boolean; // its weights are differences of two runs
}

function layers_of(picture: Picture): Layer[] {
  const most = largest(picture.heads.flatMap((head) => head.patches.flat()));
  return [
    {
      id: "rollout",
      title: "Through all layers (rollout)",
      patches: picture.rollout,
      least: Math.min(...picture.rollout.flat()),
      most: largest(picture.rollout.flat()),
      changes: false,
    },
    ...picture.heads.map((head) => ({
      id: `${head.layer}.${head.head}`,
      title: `Layer ${head.layer}, head ${head.head}`,
      patches: head.patches,
      least: 0,
      most,
      changes: false,
    })),
  ];
}

// Less those of the other run, which has the same patches.
function less(ours: readonly Layer[], theirs: readonly Layer[]): Layer[] {
  const all = ours.flatMap((one) => {
    const other = theirs.find(({ id }) => id === one.id);
    return other ? [{ ...one, patches: difference_of(one.patches, other.patches), changes: true }] : [];
  });
  const most = largest_of(all.map((one) => one.patches));
  return all.map((one) => ({ ...one, most }));
}

function drawn(
  picture: Picture,
  layer: Layer,
  size: number,
  chosen: number,
  colors: Colors,
  pick?: (patch: number) => void,
): TemplateResult {
  const [rows, columns] = picture.grid;
  const [pixel_rows, pixel_columns] = [picture.pixels.length || rows, picture.pixels[0]?.length || columns];
  const scale = size / Math.max(pixel_rows, pixel_columns);
  const all = { x: 0, y: 0, width: pixel_columns * scale, height: pixel_rows * scale };
  const [width, height] = [all.width / columns, all.height / rows];
  const box = (patch: number): Box => ({
    x: (patch % columns) * width,
    y: Math.floor(patch / columns) * height,
    width,
    height,
  });
  const heated = (weight: number, patch: number): TemplateResult => {
    const { least, most } = layer.changes ? { ...layer, least: 0 } : layer;
    const part = most > least && Number.isFinite(weight) ? (weight - least) / (most - least) : 0;
    const fill = layer.changes ? (part < 0 ? colors.less : colors.more) : hot(part);
    const opacity = layer.changes ? 0.9 * Math.abs(part) : kOver * part;
    return rect(box(patch), { fill, opacity, click: pick && (() => pick(patch)) });
  };
  return framed_picture(all.width, all.height, kHeat[0] as Rgb, 12, [
    picture.pixels.length > 0 ? image(all, pixel_image(picture.pixels), scale > 3) : [],
    layer.patches.flat().map(heated),
    chosen >= 0
      ? [rect(box(chosen), { stroke: kWhite, thick: 4 }), rect(box(chosen), { stroke: kBlack, thick: 1.5 })]
      : [],
  ]);
}

export function picture_view(picture: Picture, screen: Screen): Shown {
  const [rows, columns] = picture.grid;
  const other = screen.other?.kind === "picture" ? screen.other : null;
  const same = other !== null && same_names(other.grid.map(String), picture.grid.map(String));
  const layers = other && same ? less(layers_of(picture), layers_of(other)) : layers_of(picture);
  const layer = layers.find((one) => one.id === screen.address.head) ?? (layers[0] as Layer);
  const chosen = screen.address.key >= 0 ? clamp(screen.address.key, 0, rows * columns - 1) : -1;
  const head = picture.heads.find((one) => `${one.layer}.${one.head}` === layer.id);
  const pick = (patch: number): void => screen.go({ key: patch });
  const weight = layer.patches[Math.floor(chosen / columns)]?.[chosen % columns];
  const on_key = (event: KeyboardEvent): void => {
    const at: [number, number] = chosen < 0 ? [0, 0] : [Math.floor(chosen / columns), chosen % columns];
    const next = event.ctrlKey || event.altKey || event.metaKey ? null : moved(event.key, at, rows, columns);
    if (!next) return;
    event.preventDefault();
    const [r, c] = chosen < 0 ? at : next;
    pick(r * columns + c);
  };
  const said = (one: number): string => (layer.changes ? signed_text(number_text(one), one) : number_text(one));
  const theirs = other && !same ? layers_of(other).find((one) => one.id === layer.id) : undefined;
  const size = screen.narrow ? 296 : kLarge;
  const [named, ...others] = picture.classes.map(({ label, probability }) => html`<bdi><strong>${label}</strong></bdi> (<span class="figure">${share_text(probability)}</span>)`);
  const of = picture.token === "class" ? "the class token" : `patch ${picture.token}`;

  const body = html`<div class="split picture-view">
    <section class="card" aria-label="The picture">
      ${named ? html`<p class="lead">The model reads it as ${named}${others.map((one, i) => html`${i === 0 ? ", then " : ", "}${one}`)}.</p>` : nothing}
      <h2>${layer.title}</h2>
      <p class="hint">
        What ${of} attends
        to.${head
          ? html` To the class token: <span class="figure">${number_text(head.to_class)}</span>; entropy <span class="figure">${number_text(head.entropy, 2)}</span> nats: exp(entropy) = <span class="figure">${number_text(Math.exp(head.entropy), 1)}</span> effective keys.`
          : nothing}
      </p>
      <div
        class="large"
        role="application"
        tabindex="0"
        aria-label=${`${layer.title}: ${rows} x ${columns} patches, arrow keys choose one`}
        @keydown=${on_key}
      >
        ${drawn(picture, layer, size, chosen, screen.colors, pick)}
      </div>
      ${other && theirs
        ? html`${cannot(["The two pictures have other patches: they cannot be subtracted."])}
            <h3>Before</h3>
            <div class="large">${drawn(other, theirs, size, -1, screen.colors)}</div>`
        : nothing}
      ${layer.changes
        ? change_legend(layer.most, screen)
        : legend(kHeat, number_text(layer.least), number_text(layer.most), "weight")}
      <p class="said-of-head" aria-live="polite">
        ${chosen >= 0
          ? html`Patch ${Math.floor(chosen / columns)},${chosen % columns}:
              <strong class="weight-of-cell">${said(weight ?? NaN)}</strong>`
          : html`<span class="hint">Choose a patch to read its weight.</span>`}
      </p>
    </section>
    <section class="card" aria-label="All heads">
      <h2>All heads</h2>
      <p class="hint">Heads on one scale; the rollout on its own.</p>
      <div class="tiles">
        ${layers.map(
          (one) =>
            html`<button class="tile" aria-pressed=${one === layer} @click=${() => screen.go({ head: one.id })}>
              <span class="small-picture" aria-hidden="true">${drawn(picture, one, kSmall, -1, screen.colors)}</span
              ><span class="tile-name">${one.id}</span>
            </button>`,
        )}
      </div>
    </section>
  </div>`;
  return {
    body,
    name: `picture-${layer.id.replace(".", "-")}`,
    tables: () => layers.map((one) => table_of(one.title, [], [], rows, columns, (r, c) => one.patches[r]?.[c] ?? NaN)),
    picture: () => drawn(picture, layer, kLarge, chosen, screen.colors),
    command: (report) => command_with(report, head ? ` --layer ${head.layer} --head ${head.head}` : "", ""),
  };
}
