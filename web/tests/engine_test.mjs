// The committed engine beside the program that was built for this machine: the same commands give the same answers.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { engine } from "./engine.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const program = process.env.QKV_PROGRAM ?? `${root}build/release/bin/qkv`;
const model = `${root}models/en-es`;
const kModelFiles = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json"];
const largest_output = 1 << 30;

const native = (args) => execFileSync(program, args, { encoding: "utf8", maxBuffer: largest_output });

// Names of the places where two values differ: numbers by more than this part of the larger one or of 1.
function differences(ours, theirs, bound, place = "") {
  // The cost is that of a machine: its tiles and threads.
  if ([".target", ".cost", ".largest_difference_from_reference"].includes(place)) return [];
  if (typeof ours === "number" && typeof theirs === "number") {
    const size = Math.max(1, Math.abs(ours), Math.abs(theirs));
    return Math.abs(ours - theirs) <= bound * size ? [] : [`${place}: ${ours} for ${theirs}`];
  }
  if (ours === null || typeof ours !== "object" || theirs === null || typeof theirs !== "object") {
    return Object.is(ours, theirs) ? [] : [`${place}: ${JSON.stringify(ours)} for ${JSON.stringify(theirs)}`];
  }
  const names = new Set([...Object.keys(ours), ...Object.keys(theirs)]);
  return [...names].flatMap((name) => differences(ours[name], theirs[name], bound, `${place}.${name}`));
}

// Numbers of lines are written out in five digits, which may round either way: words alone are compared there.
function without_lines(explanation) {
  return JSON.parse(JSON.stringify(explanation), (name, value) => (name === "lines" ? undefined : value));
}

const kSteps = [
  [],
  ["--scale", "0.5"],
  ["--causal", "top-left"],
  ["--score", "scaled-dot", "--mask", "[[1,0,1],[0,1,1],[0,0,0]]"],
  ["--substitute", "weights=[[0,0.5,0.5],[0,1,0],[0,0.9,0.1]]"],
  ["--inputs", "1", "--dim", "1"],
  ["--inputs", "7", "--dim", "5", "--score", "additive"],
  ["--inputs", "4", "--dim", "6", "--score", "bilinear", "--key-dim", "3"],
  ["--inputs", "5", "--dim", "4", "--score", "concat", "--causal", "bottom-right"],
  ["--inputs", "6", "--dim", "8", "--heads", "4", "--causal", "top-left"],
  ["--inputs", "33", "--dim", "17", "--window", "2,0"],
  ["--input", "[[1e30,-0,0],[-1e30,3,1]]", "--w-query", "[[1],[2],[3]]", "--w-key", "[[1],[0],[1]]", "--w-value", "[[1],[1],[0]]"],
];

test("explanations of steps are those of the program, to 1e-12", () => {
  const made = engine();
  for (const options of kSteps) {
    const args = ["explain", ...options, "--json"];
    const { code, out, error } = made.run(args);
    assert.equal(error, "");
    assert.equal(code, 0);
    const [ours, theirs] = [out, native(args)].map((text) => without_lines(JSON.parse(text)));
    assert.deepEqual(differences(ours, theirs, 1e-12), [], options.join(" "));
  }
});

test("what is refused is refused in the same words", () => {
  const made = engine();
  for (const args of [
    ["explain", "--bad"],
    ["explain", "--input", "[[1,2],[3]]"],
    ["explain", "--w-query", "[[1]]"],
    ["explain", "--mask", "[[1,x]]"],
    ["explain", "--inputs", "5000"],
    ["translate", "--model", "/nowhere", "a"],
    [],
  ]) {
    const { status, stderr, stdout } = spawnSync(program, args, { encoding: "utf8" });
    const { code, out, error } = made.run(args);
    assert.equal(code, status, args.join(" "));
    assert.equal(out, stdout);
    if (args.length > 0) assert.equal(error, stderr.trim()); // without a command it lists its commands, and has fewer
  }
  assert.equal(made.run(["explain", "--json"]).code, 0);
});

const sentences = readFileSync(`${root}data/phrases.es.tsv`, "utf8")
  .split("\n")
  .filter((_, i) => i % 14 === 0)
  .map((line) => line.split("\t")[0])
  .filter((text) => text !== "")
  .slice(0, 100);

const score_of = (explanation) =>
  explanation.translation.written.reduce((sum, { probability }) => sum + Math.log(probability), 0);

// Of two translations whose probability is nearly the same either may win.
test("100 translations: the same tokens in 99, the scores of others within 1e-4, weights to 1e-5", () => {
  assert.equal(sentences.length, 100);
  const args = ["translate", "--explain", "--json", ...sentences];
  const { code, out, error } = engine(model, kModelFiles).run(args);
  assert.equal(error, "");
  assert.equal(code, 0);
  const [ours, theirs] = [out, native(args)].map((text) => text.trim().split("\n").map((line) => JSON.parse(line)));
  assert.equal(ours.length, theirs.length);
  let differing = 0;
  ours.forEach((our, i) => {
    const their = theirs[i];
    const [written, expected] = [our, their].map((one) => one.translation.written.map(({ id }) => id).join(" "));
    if (written === expected) {
      const found = differences(our.translation.word_weights, their.translation.word_weights, 1e-5);
      assert.deepEqual(found, [], our.translation.source_text);
      return;
    }
    ++differing;
    const [score, other] = [score_of(our), score_of(their)];
    console.log(`${our.translation.source_text}: ${written} (${score}) for ${expected} (${other})`);
    assert.ok(Math.abs(score - other) <= 1e-4, `${score} for ${other}`);
  });
  assert.ok(differing <= 1, `${differing} differ`);
});

// In two pieces and resumed here, in one piece there: as the page trains. There on the portable target, which like
// WebAssembly fuses no multiply-add: over 100 updates the rounding of fused ones alone moves the losses of the program
// by 3e-3, from one of its targets to the other; what is compared here differs by 2e-7.
test("100 losses of a training are those of the program, to 1e-5", () => {
  const folder = mkdtempSync(join(tmpdir(), "qkv-learn-"));
  const losses = (log) => log.trim().split("\n").map((line) => JSON.parse(line)).flatMap(({ loss }) => loss ?? []);
  const words = (at) => ["train", "--config", `${at}/config.json`, "--train", `${at}/pairs.tsv`, "--valid", `${at}/pairs.tsv`];
  const config = (steps) =>
    JSON.stringify({
      model: { model_dim: 64, heads: 4, ff_dim: 128, encoder_layers: 1, decoder_layers: 1, positions: 32, dropout: 0.1 },
      tokenizer: { vocab: 300 },
      training: { steps, rate: 0.003, warmup: 20, log_every: 1, validate_every: 10, batch_tokens: 200 },
    });
  const pairs = readFileSync(`${root}data/phrases.es.tsv`, "utf8").split("\n").slice(0, 20).join("\n") + "\n";
  writeFileSync(`${folder}/pairs.tsv`, pairs);
  writeFileSync(`${folder}/config.json`, config(100));
  execFileSync(program, [...words(folder), "--out", `${folder}/out`], {
    stdio: "ignore",
    env: { ...process.env, QKV_TARGET: "portable" },
  });
  const theirs = losses(readFileSync(`${folder}/out/log.jsonl`, "utf8"));
  rmSync(folder, { recursive: true });

  const made = engine();
  made.system.files.put("/learn/pairs.tsv", Buffer.from(pairs));
  let log = "";
  for (const steps of [50, 100]) {
    made.system.files.put("/learn/config.json", Buffer.from(config(steps)));
    const { code, error, read } = made.run([...words("/learn"), "--out", "/learn/out"], "/learn/out/log.jsonl");
    assert.equal(code, 0, error);
    log = read;
  }
  const ours = losses(log);
  assert.equal(ours.length, 100);
  assert.equal(theirs.length, 100);
  assert.ok(theirs[99] < 0.5 * theirs[0]);
  ours.forEach((loss, i) => assert.ok(Math.abs(loss - theirs[i]) <= 1e-5, `update ${i + 1}: ${loss} for ${theirs[i]}`));
});
