// The program that was built, and pages that it writes.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));
export const program = process.env.QKV_PROGRAM ?? `${root}build/release/bin/qkv`;
export const model = `${root}models/en-es`;

// What a language model writes, with every weight.
export const writing = ["explain", "--model", `${root}tests/golden/language/gpt2`, "--text", "The cat sat on the", "--weights"];

export const run = (...args) => execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"], maxBuffer: 1 << 30 });
export const native = (...args) => JSON.parse(run(...args, "--json"));
