// Two runs: what a step's numbers are now, less what they were before the reader changed something.
import { html, nothing, type TemplateResult } from "lit-html";
import type { Nested } from "../check";
import type { Steps, Tensor } from "../explanation";
import { matrix, type MatrixUse } from "../matrices";
import { walk_of } from "../stage";
import { type Window, window_of } from "../tensors";

// Not a number where one of both hides a key.
function less(now: Nested, then: Nested): Nested {
  if (typeof now === "number") return (now === then ? 0 : now - (then as number)) as unknown as Nested;
  return now.map((one, i) => less(one, (then as readonly Nested[])[i] as Nested)) as Nested;
}

const changes = new WeakMap<Tensor, Tensor>();

function change_of(now: Tensor, then: Tensor): Tensor {
  const known = changes.get(now);
  if (known) return known;
  const values = less(now.values as Nested, then.values as Nested);
  const made: Tensor = { ...now, name: `change of ${now.name}`, values, substituted: false };
  changes.set(now, made);
  return made;
}

const is_zero = (values: Nested): boolean => (typeof values === "number" ? values === 0 : values.every(is_zero));

export function differences(
  first: Steps | null,
  windows: readonly Window[],
  use: MatrixUse,
): TemplateResult | typeof nothing {
  if (!first) return nothing;
  const before = walk_of(first).tensors;
  const changed = windows.flatMap((window) => {
    const then = before.get(window.tensor.name);
    const same_shape = then?.shape.join() === window.tensor.shape.join();
    if (!then?.values || !window.tensor.values || !same_shape) return [];
    const change = change_of(window.tensor, then);
    return [{ window: window_of(change, window.lead, `change of ${window.title}`), none: is_zero(change.values as Nested) }];
  });
  if (changed.length === 0) return nothing;
  return html`<section class="differences" aria-label="What changed">
    <h3>Now, less what it was at the start</h3>
    ${changed.every(({ none }) => none)
      ? html`<p class="hint">No number of this step changed.</p>`
      : html`<div class="matrices">${changed.map(({ window }) => matrix(window, use))}</div>`}
  </section>`;
}
