// The map of a model, what its masks hid, sums of several queries, the cost of a call: each against the JSON.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { faults_of } from "./axe.mjs";
import { data_of, hash_of, open, report_of } from "./browser.mjs";
import { native, root, run } from "./program.mjs";

const translation = () => data_of("translation");
const close_to = (actual, expected) => assert.ok(Math.abs(actual - expected) < 1e-5, `${actual}, not ${expected}`);

test("the map has every sublayer in its place with its shape, and every head leads to its weights", async () => {
  const data = translation();
  const { page, close } = await open(report_of(data), { hash: "#view=model" });
  const labels = await page.locator(".model a").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")));
  const shapes = labels.filter((label) => / x \d+: lengths$/.test(label)).map((label) => /(\d+ x \d+)/.exec(label)[1]);
  assert.deepEqual(shapes, data.sublayers.map(({ shape }) => shape.join(" x ")));
  const heads = data.attentions.reduce((sum, { all }) => sum + all.length, 0);
  assert.equal(labels.length, shapes.length + heads + 1); // and what was written
  await page.getByRole("link", { name: "Encoder-decoder attention, head 2.1" }).click();
  assert.match(await hash_of(page), /view=heads&attention=encoder_decoder&head=2\.1/);
  assert.match(await page.locator(".one-head h2").innerText(), /Encoder-decoder attention, layer 2, head 1/);
  await close();
});

// Every box of the map, in the order of the page: its name without the shape; the ids of heads.
const boxes_of = (page) =>
  page.locator(".model text").evaluateAll((all) =>
    all.map((one) => one.textContent).filter((text) => !/^(\d+ x \d+|\d+ tokens|Output projection|Softmax|a score for.*|scores become.*|Token \d+: .*)$/.test(text)),
  );
const attention_of = ({ all }, layer, title) => [title, ...all.filter((one) => one.layer === layer).map((one) => `${one.layer}.${one.head}`)];

test("an encoder alone: one column, its first norm adds nothing, its heads and lengths", async () => {
  const data = native("explain", "--model", `${root}tests/golden/encoders/roberta`, "--text", "Thank you", "--weights");
  const { page, close } = await open(report_of(data), { hash: "#view=model" });
  const after_attention = ["Add and norm", "Feed-forward", "Add and norm"];
  const layer = (number) => [`Layer ${number}`, ...attention_of(data.attentions[0], number, "Attention"), ...after_attention];
  assert.deepEqual(await boxes_of(page), ["Encoder", "Embedding", "Positions added", "Norm", ...layer(0), ...layer(1)]);
  const shapes = await page.locator(".model a[aria-label$=': lengths']").evaluateAll((all) => all.map((one) => /(\d+ x \d+): lengths/.exec(one.getAttribute("aria-label"))[1]));
  assert.deepEqual(shapes, data.sublayers.map(({ shape }) => shape.join(" x ")));
  assert.equal(await page.locator(".model path").count(), 0);
  assert.match(await page.getByLabel("Places of attention").innerText(), /2 layers of 3 heads, 10 queries, 10 keys; nothing is hidden/);
  assert.deepEqual(await faults_of(page), []);
  await page.locator(".model a[href*='layers.1.feed_forward&'], .model a[href$='layers.1.feed_forward']").click();
  const { lengths } = data.sublayers.find(({ name }) => name === "layers.1.feed_forward");
  const shown = await page.locator(".model-view .measures tr td:nth-child(2)").allInnerTexts();
  shown.forEach((text, i) => close_to(Number(text), lengths[i]));
  assert.equal(shown.length, lengths.length);
  await page.getByRole("link", { name: "Attention, head 1.2" }).click();
  assert.match(await hash_of(page), /view=heads&attention=attention&head=1\.2/);
  await close();
});

// Twenty pairs of the phrase book, until it ends its sentences.
const folder = mkdtempSync(join(tmpdir(), "qkv-recurrent-"));
after(() => rmSync(folder, { recursive: true }));
function recurrent(attention) {
  const pairs = join(folder, "pairs.tsv");
  writeFileSync(pairs, readFileSync(`${root}data/phrases.es.tsv`, "utf8").split("\n").slice(0, 20).join("\n") + "\n");
  const config = join(folder, `${attention}.json`);
  const training = { rate: 0.01, warmup: 5, steps: 80, batch_tokens: 200 };
  writeFileSync(config, JSON.stringify({ model: { attention, model_dim: 32 }, tokenizer: { vocab: 300 }, training }));
  const made = join(folder, attention);
  run("train", "--config", config, "--train", pairs, "--valid", pairs, "--out", made);
  return native("explain", "--model", made, "--text", "Thank you", "--weights");
}

test("recurrent models: states of both sides, and the attention between them", async () => {
  for (const attention of ["additive", "bilinear"]) {
    const data = recurrent(attention);
    assert.ok(data.sequences[1].tokens.length < 100);
    const { page, close } = await open(report_of(data), { hash: "#view=model", width: attention === "additive" ? 1280 : 360 });
    assert.deepEqual(await boxes_of(page), ["Encoder", "Recurrent states", "Decoder", "Recurrent states", "Layer 0", "Encoder-decoder attention", "0.0"]);
    assert.match(await page.getByLabel("Places of attention").innerText(), /1 layer of 1 head, \d+ quer(y|ies), 3 keys; nothing is hidden/);
    assert.deepEqual(await faults_of(page), []);
    await page.locator(".model a[href*='decoder.output']").click();
    const { lengths } = data.sublayers.find(({ name }) => name === "decoder.output");
    const shown = await page.locator(".model-view .measures tr td:nth-child(2)").allInnerTexts();
    assert.equal(shown.length, lengths.length);
    shown.forEach((text, i) => close_to(Number(text), lengths[i]));
    await page.getByRole("link", { name: "Encoder-decoder attention, head 0.0" }).click();
    assert.match(await page.locator(".one-head h2").innerText(), /Encoder-decoder attention, layer 0, head 0/);
    await page.goto(page.url().replace(/#.*/, "#view=translation"));
    await page.locator("button.token.now").waitFor();
    await close();
  }
});

test("a sublayer shows the lengths of its vectors, by keyboard too", async () => {
  const data = translation();
  const sublayer = data.sublayers.find(({ name }) => name === "decoder.layers.1.feed_forward");
  const { page, close } = await open(report_of(data), { hash: "#view=model" });
  await page.locator(`.model a[href*="${sublayer.name}"]`).nth(0).focus();
  await page.keyboard.press("Enter");
  assert.match(await hash_of(page), /cell=decoder\.layers\.1\.feed_forward/);
  const lengths = await page.locator(".model-view .measures tr td:nth-child(2)").allInnerTexts();
  assert.equal(lengths.length, sublayer.lengths.length);
  lengths.forEach((text, i) => close_to(Number(text), sublayer.lengths[i]));
  await close();
});

// Of n queries a look-ahead mask hides n (n - 1) / 2 pairs; a key that is left out, one more of each query before it.
test("what the masks hid is counted and crossed out", async () => {
  const data = translation();
  const n = data.sequences.find(({ name }) => name === "read").tokens.length;
  data.left_out = { heads: [{ attention: "encoder", layer: 0, head: 1 }], keys: [{ attention: "decoder", key: 0 }] };
  const { page, close } = await open(report_of(data), { hash: "#view=model" });
  const card = page.getByLabel("Mask of Masked decoder self-attention");
  const hidden = (n * (n - 1)) / 2 + n;
  assert.match(await card.innerText(), new RegExp(`${hidden} of ${n * n} pairs`));
  const path = await card.locator("svg path").getAttribute("d");
  assert.equal(path.split("M").length - 1, hidden);
  assert.match(await page.getByLabel("Places of attention").innerText(), /Left out: encoder head 0\.1/);
  await close();
});

test("the weights of several queries are added: by Shift, by box, by word", async () => {
  const data = translation();
  const { weights } = data.attentions[0].all.find(({ layer, head }) => layer === 1 && head === 2);
  const hash = "#view=heads&attention=encoder&head=1.2&token=1&key=3";
  const { page, close } = await open(report_of(data), { hash });
  const said = async () => Number(await page.locator(".weight-of-cell").innerText());
  const map = page.getByRole("application");
  await map.focus();
  await page.keyboard.press("Shift+ArrowDown");
  await page.keyboard.press("Shift+ArrowDown");
  assert.match(await hash_of(page), /token=3&also=2,1&key=3/);
  close_to(await said(), weights[1][3] + weights[2][3] + weights[3][3]);
  await page.keyboard.press("Shift+ArrowUp");
  close_to(await said(), weights[1][3] + weights[2][3]);
  await page.getByLabel("Add several up").check();
  await page.locator(".one-head select").selectOption("0");
  close_to(await said(), weights[0][3] + weights[1][3] + weights[2][3]);
  await page.getByRole("button", { name: "One row" }).click();
  const bars = await page.locator(".large text").allTextContents();
  assert.ok(bars.some((text) => text.startsWith("sum of")));
  await page.getByLabel("Add several up").uncheck();
  const word_of = data.sequences[0].word_of;
  const pieces = word_of.flatMap((word, i) => (word === word_of[1] ? [i] : []));
  assert.ok(pieces.length > 1);
  await page.locator(".one-head select").selectOption("1");
  await page.getByRole("button", { name: "Its whole word" }).click();
  close_to(await said(), pieces.reduce((sum, i) => sum + weights[i][3], 0));
  await close();
});

test("what plan() says of the call is shown", async () => {
  const data = data_of("steps");
  data.cost = { kernel: "prefill", target: "avx2", precision: "exact", threads: 1, block_queries: 8, tile_keys: 16, chunk_keys: 0, tiles: 4, skipped_tiles: 1, operations: 1234567, bytes: 288, workspace: 4096, remarks: ["a remark"] };
  const { page, close } = await open(report_of(data));
  const panel = page.locator(".costs");
  assert.match(await panel.innerText(), /1,234,567 operations, 1 thread/);
  await panel.locator("summary").click();
  const text = await panel.innerText();
  for (const part of ["288 bytes", "4,096 bytes", "4, 1 skipped", "prefill on avx2", "a remark"]) assert.ok(text.includes(part), part);
  await close();
});

test("whose columns are whose: heads over their columns, products by their heads", async () => {
  const data = data_of("two_heads");
  const { page, close } = await open(report_of(data), { hash: "#step=8&cell=output:1.2" });
  assert.deepEqual(await page.locator("[aria-label^='merged'] .of-head").allInnerTexts(), ["head 1", "head 2"]);
  const labels = await page.locator(".term th").allInnerTexts();
  assert.deepEqual(labels, ["head 1.1", "head 1.2", "head 1.3", "head 2.1", "head 2.2", "head 2.3"]);
  const all = data.sections.flatMap(({ blocks }) => blocks.flatMap(({ tensors }) => tensors));
  const values = (name) => all.find((one) => one.name === name).values;
  const terms = await page.locator(".term").evaluateAll((rows) => rows.map((row) => Number(row.dataset.value)));
  for (const k of [0, 1, 2, 3, 4, 5]) {
    close_to(terms[k], values("heads")[Math.floor(k / 3)][1][k % 3] * values("w_out")[k][2]);
  }
  await close();
});
