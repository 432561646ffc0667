// The other views: what they show is the JSON's, and where the reader is stands in the address.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { data_of, hash_of, open, open_file, report_of } from "./browser.mjs";
import { native, root } from "./program.mjs";

const translation = () => data_of("translation");
const head_of = (data, name, layer, head) =>
  data.attentions.find((one) => one.name === name).all.find((one) => one.layer === layer && one.head === head);
const weight_of = (page) => page.locator(".weight-of-cell").first().innerText().then(Number);

// The weights of tokens summed over the keys of a word and averaged over the queries of another.
function joined(weights, queries, keys) {
  const sum = queries.flatMap((i) => keys.map((j) => weights[i][j])).reduce((a, b) => a + b, 0);
  return sum / queries.length;
}

test("a cell of a head shows its weight", async () => {
  const data = translation();
  const { page, close } = await open(report_of(data), { hash: "#view=heads&attention=encoder&head=1.2&token=2&key=0" });
  assert.ok(Math.abs((await weight_of(page)) - head_of(data, "encoder", 1, 2).weights[2][0]) < 1e-5);
  await close();
});

// Sentences about a row follow from its numbers: shares, less than all, nothing.
test("a row that adds up to less than 1, or has no weight, is said to", async () => {
  const data = translation();
  const { weights } = head_of(data, "encoder", 1, 2);
  weights[0] = weights[0].map((_, j) => (j < 2 ? 0.25 : 0));
  weights[1] = weights[1].map(() => 0);
  const [first, second] = data.sequences[0].tokens;
  for (const [token, said] of [
    [0, `${first} attends most to ${first} (25 %), then to ${second} (25 %). All its weights together are 0.50000, not 1.`],
    [1, `${second} attends to nothing: its weights are all 0.`],
    [2, null],
  ]) {
    const { page, close } = await open(report_of(data), { hash: `#view=heads&attention=encoder&head=1.2&token=${token}` });
    const sentence = (await page.locator(".said-of-head").innerText()).replace(/\s+/g, " ").trim();
    if (said) assert.equal(sentence, said);
    else assert.match(sentence, /attends most to [^.]*\.$/);
    await close();
  }
});

test("what was not read of a text is said in every view of it", async () => {
  for (const [name, views] of [
    ["translation", ["translation", "heads", "model"]],
    ["head", ["head"]],
    ["token", ["token"]],
  ]) {
    for (const view of views) {
      const { page, close } = await open(report_of({ ...data_of(name), cut: 7 }), { hash: `#view=${view}` });
      assert.match(await page.locator("main .cut").innerText(), /The last 7 tokens of the text were not read/);
      await close();
    }
    const { page, close } = await open(report_of(data_of(name)));
    assert.equal(await page.locator("main .cut").count(), 0);
    await close();
  }
});

test("beside an entropy stands the effective number of keys", async () => {
  const data = translation();
  const { page, close } = await open(report_of(data), { hash: "#view=heads&attention=encoder&head=1.2" });
  const row = page.locator("table.measures tr", { hasText: "effective number of keys" });
  const shown = Number(await row.locator("td").first().innerText());
  assert.ok(Math.abs(shown - Math.exp(head_of(data, "encoder", 1, 2).entropy)) <= 0.05);
  await close();
});

test("words joined are sums over keys and means over queries", async () => {
  const data = translation();
  const [target, source] = ["target", "source"].map((name) => data.sequences.find((one) => one.name === name));
  const tokens_of = (sequence, word) => sequence.word_of.flatMap((one, i) => (one === word ? [i] : []));
  const in_pieces = (sequence) => sequence.words.findIndex((_, word) => tokens_of(sequence, word).length > 1);
  const queries = tokens_of(target, in_pieces(target)),
    keys = tokens_of(source, in_pieces(source));
  assert.ok(queries.length > 1 && keys.length > 1, "some words have pieces");
  const hash = `#view=heads&attention=encoder_decoder&head=2.1&words=1&token=${queries[0]}&key=${keys[0]}`;
  const { page, close } = await open(report_of(data), { hash });
  assert.ok(
    Math.abs((await weight_of(page)) - joined(head_of(data, "encoder_decoder", 2, 1).weights, queries, keys)) < 1e-5,
  );
  await close();
});

test("heads are sorted by a measure", async () => {
  const data = translation();
  const { page, close } = await open(report_of(data), { hash: "#view=heads&attention=decoder&sort=previous" });
  const shown = await page.locator(".tile-name").allInnerTexts();
  const all = data.attentions.find((one) => one.name === "decoder").all;
  const expected = [...all].sort((a, b) => b.previous - a.previous).map((one) => `${one.layer}.${one.head}`);
  assert.deepEqual(
    shown.map((text) => text.trim().split(/\s/)[0]),
    expected,
  );
  await close();
});

test("a head is drawn in three ways, and the pointer chooses", async () => {
  const { page, close } = await open(report_of(translation()), { hash: "#view=heads&attention=encoder" });
  const { width } = await page.locator(".large .target").boundingBox();
  await page.locator(".large .target").click({ position: { x: width - 3, y: 3 } });
  const last = data_of("translation").sequences[0].tokens.length - 1;
  assert.match(await hash_of(page), new RegExp(`token=0&key=${last}`));
  await page.getByRole("button", { name: "Lines" }).click();
  assert.ok((await page.locator(".large path").count()) > 5);
  await page.getByRole("button", { name: "One row" }).click();
  assert.equal(await page.locator(".large rect[rx='3']").count(), last + 1);
  assert.match(await hash_of(page), /show=row/);
  await close();
});

test("without weights the heads show their measures", async () => {
  const { page, close } = await open(report_of(data_of("no_weights")), { hash: "#view=heads" });
  assert.match(await page.locator(".one-head").innerText(), /--weights keeps them/);
  await close();
});

test("the slider goes through what was written", async () => {
  const data = translation();
  const { page, close } = await open(report_of(data));
  const written = data.translation.written;
  for (const token of [0, 2, written.length - 1]) {
    await page.getByRole("slider").fill(String(token));
    const shown = await page.locator(".candidates .token").allInnerTexts();
    assert.deepEqual(
      shown,
      written[token].candidates.map((one) => one.token),
    );
    assert.match(await hash_of(page), new RegExp(`token=${token}`));
  }
  await close();
});

test("one head: products of an output are weights times values", async () => {
  const data = data_of("head");
  const { page, close } = await open(report_of(data), { hash: "#view=head&token=1&cell=output:1.7" });
  const terms = await page.locator(".term").evaluateAll((rows) => rows.map((row) => Number(row.dataset.value)));
  data.value.forEach((row, j) => assert.ok(Math.abs(terms[j] - data.weights[1][j] * row[7]) < 1e-9));
  assert.ok(Math.abs(terms.reduce((a, b) => a + b, 0) - data.output[1][7]) < 1e-5);
  await page
    .locator(".heat")
    .first()
    .click({ position: { x: 5, y: 5 } });
  assert.match(await hash_of(page), /cell=query:1.0/);
  await close();
});

test("one head with a bias of positions: a logit is the scaled score and the bias", async () => {
  const head = ["--layer", "1", "--head", "2", "--token", "cat"];
  const data = native("explain", "--model", `${root}tests/golden/encoders/mpnet`, "--text", "the cat", ...head);
  const { page, close } = await open(report_of(data), { hash: "#view=head&token=2&cell=logits:2.0" });
  const terms = await page.locator(".term").evaluateAll((rows) => rows.map((row) => Number(row.dataset.value)));
  const score = terms.reduce((a, b) => a + b, 0);
  assert.ok(Math.abs(data.bias[2][0]) > 0.1);
  assert.ok(Math.abs(score * data.scale + data.bias[2][0] - data.logits[2][0]) < 1e-5);
  assert.match(await page.locator(".formula").innerText(), /^logit = query \. key x 0\.50000 \+ bias /);
  await close();
});

test("a picture: each patch shows its weight, by rollout and by head", async () => {
  const data = data_of("picture");
  const { page, close } = await open(report_of(data), { hash: "#head=1.3&key=2" });
  const head = data.heads.find((one) => one.layer === 1 && one.head === 3);
  assert.ok(Math.abs((await weight_of(page)) - head.patches[1][0]) < 1e-5);
  await page.locator(".tile").first().click();
  assert.ok(Math.abs((await weight_of(page)) - data.rollout[1][0]) < 1e-5);
  await close();
});

test("several explanations have a tab each, and a head leads back to its link", async () => {
  const { page, close } = await open(report_of(data_of("steps"), translation()), {
    hash: "#of=1&view=heads&attention=encoder&head=0.3",
  });
  assert.match(await page.locator(".one-head h2").innerText(), /layer 0, head 3/);
  await page.getByRole("link", { name: "Steps" }).click();
  assert.match(await page.locator(".step h2").innerText(), /Prepare inputs/);
  await close();
});

async function saved(page, name) {
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name, exact: true }).click(),
  ]);
  return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
}

test("views are saved as SVG, PNG and CSV", async () => {
  for (const [name, hash] of [
    ["steps", "#step=3"],
    ["translation", "#view=translation"],
    ["translation", "#view=heads&attention=encoder&show=lines"],
    ["head", ""],
    ["picture", ""],
    ["token", ""],
    ["translation", "#view=model"],
    ["translation", "#view=heads&show=row&token=1"],
    ["two_heads", "#step=7"],
    ["maps", "#head=0.1&token=7"],
  ]) {
    const { page, close } = await open(report_of(data_of(name)), { hash });
    const svg = (await saved(page, "SVG")).bytes.toString();
    assert.match(svg, /^<svg [^>]*xmlns="http:\/\/www.w3.org\/2000\/svg"/);
    assert.doesNotMatch(svg, /<!--|class="chosen"|undefined|NaN/);
    const png = (await saved(page, "PNG")).bytes;
    assert.deepEqual([...png.subarray(1, 4)], [0x50, 0x4e, 0x47]);
    assert.ok(png.length > 1000);
    assert.match((await saved(page, "CSV")).name, /\.csv$/);
    await close();
  }
});

test("CSV holds the numbers in full", async () => {
  const data = translation();
  const { page, close } = await open(report_of(data), { hash: "#view=heads&attention=encoder&head=1.1" });
  const lines = (await saved(page, "CSV")).bytes.toString().split("\r\n");
  assert.deepEqual(lines[1].split(",").slice(1).map(Number), head_of(data, "encoder", 1, 1).weights[0]);
  await close();
});

test("heads are sorted by what a token owes to them", async () => {
  const token = data_of("token");
  const values = (measure) => token.heads.measures.find((one) => one.measure === measure).values;
  for (const measure of ["gradient", "knock_out"]) {
    const { page, close } = await open(report_of(translation(), token), {
      hash: `#view=heads&attention=encoder_decoder&sort=${measure}`,
    });
    const expected = token.heads.all
      .map((place, i) => ({ ...place, value: Math.abs(values(measure)[i]) }))
      .filter((one) => one.attention === "encoder_decoder")
      .sort((a, b) => b.value - a.value)
      .map((one) => `${one.layer}.${one.head}`);
    const shown = await page.locator(".tile-name").allInnerTexts();
    assert.deepEqual(
      shown.map((text) => text.trim().split(/\s/)[0]),
      expected,
    );
    await close();
  }
});

test("a token: every measure of its keys and heads, and how they rank", async () => {
  const data = data_of("token");
  const { page, close } = await open(report_of(data));
  const tables = page.locator("table.of-token");
  assert.equal(await tables.count(), 4);
  const keys = data.keys[2];
  const cells = await tables.nth(2).locator("tbody tr").first().locator("td").allInnerTexts();
  cells.forEach((text, i) => assert.ok(Math.abs(Number(text) - keys.measures[i].values[0]) <= 5e-4 * Math.max(1, Math.abs(Number(text)))));
  const ranks = await tables.nth(2).locator("tfoot td").allInnerTexts();
  assert.ok(Math.abs(Number(ranks[1]) - keys.measures[1].rank_correlation) < 0.006);
  assert.equal(ranks[3], "-");
  await close();
});

test("the names of queries and keys stand within the picture of lines", async () => {
  const data = translation();
  const { page, close } = await open(report_of(data), { hash: "#view=heads&attention=encoder&head=1.2&show=lines" });
  const sides = await page.locator("svg text").evaluateAll((texts) =>
    texts.filter((one) => /^(queries|keys)$/.test(one.textContent)).map((one) => {
      const [own, all] = [one.getBoundingClientRect(), one.ownerSVGElement.getBoundingClientRect()];
      return [own.left >= all.left, own.right <= all.right];
    }),
  );
  assert.deepEqual(sides, [[true, true], [true, true]]);
  await close();
});

for (const name of ["explain", "translate"]) {
  test(`the picture of qkv ${name} in the README keeps its columns`, async () => {
    const { page, close } = await open_file(`${root}docs/${name}.svg`);
    const lost = await page.evaluate(() =>
      [...document.querySelectorAll("text")].map((one) => [one.getNumberOfChars(), [...one.textContent].length]),
    );
    assert.ok(lost.length > 5);
    for (const [drawn, written] of lost) assert.equal(drawn, written);
    await close();
  });
}
