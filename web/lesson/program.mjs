// What the program says: every number of the lesson's pictures. On the portable target, which every CPU has: counted
// operations include what a target's vectors compute beyond the edge.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const root = new URL("../../", import.meta.url).pathname;

const run = (...args) =>
  execFileSync(join(root, "build/release/bin/qkv"), args, {
    cwd: root,
    env: { ...process.env, QKV_TARGET: "portable" },
    encoding: "utf8",
    maxBuffer: 1 << 28,
    stdio: ["ignore", "pipe", "ignore"],
  });

export const explain = (...args) => JSON.parse(run("explain", "--json", ...args.map(String)));

// The first tensor of an explanation in steps that has this name.
export function tensor(steps, name) {
  const all = steps.sections.flatMap((section) => section.blocks).flatMap((block) => block.tensors);
  const found = all.find((one) => one.name === name);
  if (!found) throw new Error(`no tensor ${name}`);
  return found.values;
}

// What `compare` counts from the layers of each model that reads 128 tokens.
export function counted() {
  const folder = mkdtempSync(join(tmpdir(), "qkv-lesson-"));
  try {
    run("compare", "--quick", "--tasks", "recall", "--models", "rnn,cnn,transformer", "--out", folder);
    const { structure } = JSON.parse(readFileSync(join(folder, "comparison.json"), "utf8"));
    const at = ({ lengths, values }, length) => values[lengths.indexOf(length)];
    return Object.fromEntries(
      structure
        .filter((one) => one.work === "reading")
        .map((one) => [
          one.model,
          {
            steps: at(one.sequential_steps, 128),
            path: at(one.longest_path, 128),
            reach: one.reach,
            operations: [64, 1024].map((length) => at(one.operations_at_once, length)),
          },
        ]),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}
