// What the program says: every number of the lesson's pictures. On the portable target, which every CPU has: counted
// operations include what a target's vectors compute beyond the edge.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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

export const translated = (text, ...args) => JSON.parse(run("translate", "--json", ...args.map(String), text)).translations;

// What work(folder) gives, of a folder that is gone then.
function within(work) {
  const folder = mkdtempSync(join(tmpdir(), "qkv-lesson-"));
  try {
    return work(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

// The gradient at a query, whose weights over the keys have the gradient `at_weights`: with the unit matrix as values the
// output is the weights.
export const gradient_of = (query, keys, at_weights) =>
  within((folder) => {
    const unit = keys.map((_, i) => keys.map((_key, j) => Number(i === j)));
    const file = (name, rows) => {
      writeFileSync(join(folder, `${name}.csv`), rows.map((row) => row.join(",")).join("\n"));
      return [`--${name}`, join(folder, `${name}.csv`)];
    };
    const given = [...file("query", [query]), ...file("key", keys), ...file("value", unit), ...file("grad-out", [at_weights])];
    run("attend", ...given, "--score", "dot", "--out", join(folder, "out.npy"), "--grad-query", join(folder, "gradient.json"));
    return JSON.parse(readFileSync(join(folder, "gradient.json"), "utf8"))[0];
  });

// The first tensor of an explanation in steps that has this name.
export function tensor(steps, name) {
  const all = steps.sections.flatMap((section) => section.blocks).flatMap((block) => block.tensors);
  const found = all.find((one) => one.name === name);
  if (!found) throw new Error(`no tensor ${name}`);
  return found.values;
}

// What `compare` counts from the layers of each model that reads 128 tokens.
export const counted = () =>
  within((folder) => {
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
  });
