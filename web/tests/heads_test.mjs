// Heads: scales of their maps, ranks beside what the mask alone gives, lines of several of them; and pictures.
import assert from "node:assert/strict";
import { test } from "node:test";
import { data_of, hash_of, open, report_of } from "./browser.mjs";

const kMeasures = { entropy: 1, distance: 1, first: 0.5, previous: 0.2, next: 0, itself: 0.3, separators: 0 };

// A model of one layer whose heads have these weights.
function model_of(heads, causal) {
  const tokens = heads[0].map((_, i) => `t${i}`);
  return {
    ...{ schema: "qkv/explain/1", kind: "heads", version: "1", target: "avx2", dtype: "f32", title: "A model", input: "t" },
    sequences: [{ name: "tokens", caption: "", tokens, special: tokens.map(() => false), word_of: tokens.map(() => -1), words: [] }],
    attentions: [
      {
        ...{ name: "attention", title: "", caption: "", layers: 1, heads: heads.length, queries: "tokens", keys: "tokens" },
        ...{ mask: causal ? "causal" : "none", largest_entropy: 1 },
        all: heads.map((weights, head) => ({ layer: 0, head, pattern: "first", ...kMeasures, value_norm: 1, induction: 0, duplicate: 0, weights })),
      },
    ],
    sublayers: [],
    translation: null,
  };
}
const matrix = (n, at) => Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_x, j) => at(i, j)));
const even = (n) => matrix(n, (i, j) => (j <= i ? 1 / (i + 1) : 0));

const legend = (page) => page.locator(".one-head .legend .figure").allInnerTexts();
// Of a pixel of the map of the chosen tile.
const color_at = (page, x, y) =>
  page.locator(".tile[aria-pressed=true] img").evaluate((image, [column, row]) => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    return [...context.getImageData(column, row, 1, 1).data].slice(0, 3);
  }, [x, y]);

test("a map is coloured up to its largest weight: of the queries that see many keys, at least four times an even one", async () => {
  const n = 60;
  const sharp = matrix(n, (i, j) => (j === 5 ? 0.41 : 0.01));
  const causal = matrix(n, (i, j) => (j > i ? 0 : i < 29 ? 1 / (i + 1) : j === 3 ? 0.3 : 0.7 / i));
  for (const [weights, is_causal, most] of [
    [matrix(n, () => 1 / n), false, 4 / n],
    [sharp, false, 0.41],
    [causal, true, 0.3], // not the 1 of the first query
    [matrix(3, () => 1 / 3), false, 1],
  ]) {
    const { page, close } = await open(report_of(model_of([weights], is_causal)), { hash: "#view=heads" });
    assert.deepEqual((await legend(page)).map(Number), [0, Number(most.toFixed(5))]);
    await close();
  }
  const { page, close } = await open(report_of(model_of([matrix(n, () => 1 / n)], false)), { hash: "#view=heads" });
  const color = await color_at(page, 30, 30);
  assert.ok(color[0] < 190, `an even map of ${n} tokens is to be seen: ${color}`); // white is 255
  await close();
});

test("heads rank by what is beyond their mask, and a kind that the mask alone makes is not named", async () => {
  const first = matrix(3, (i, j) => (j === 0 ? 1 : 0));
  const between = [[1, 0, 0], [0.8, 0.2, 0], [0.6, 0.2, 0.2]];
  const { page, close } = await open(report_of(model_of([even(3), between, first], true)), { hash: "#view=heads" });
  const kinds = await page.locator(".tile-value").allInnerTexts();
  assert.deepEqual(kinds.map((one) => one.trim()), ["", "first", "first"]);
  await page.getByText("what stands out is the mask").waitFor();
  await page.getByLabel("Sorted by").selectOption("beyond");
  const [names, shares] = [".tile-name", ".tile-value"].map((one) => page.locator(one).allInnerTexts());
  assert.deepEqual((await names).map((one) => one.slice(0, 3)), ["0.2", "0.1", "0.0"]);
  // By hand: (1/2 + 2/3) / 2, (0.3 + 0.8/3) / 2, and of the first query, which sees one key, nothing.
  assert.deepEqual(await shares, ["58 %", "28 %", "0 %"]);
  await close();
});

test("lines of several heads: a colour and a button for each, the one that is pointed at stands out, the address has them", async () => {
  const { page, close } = await open(report_of(data_of("translation")), { hash: "#view=heads&attention=encoder&head=1.2&show=lines" });
  const strokes = () => page.locator(".one-head path").evaluateAll((all) => [...new Set(all.map((one) => one.getAttribute("stroke")))]);
  const choice = page.getByRole("group", { name: "Heads whose lines are shown" });
  assert.equal((await strokes()).length, 1);
  await choice.getByRole("button", { name: "1.0" }).click();
  await choice.getByRole("button", { name: "1.3" }).click();
  assert.match(await hash_of(page), /lines=1\.0,1\.3/);
  assert.equal((await strokes()).length, 3);
  assert.match(await page.locator(".one-head path title").first().textContent(), /^head 1\.\d: .+, .+, [\d.e-]+$/);
  await page.mouse.move(0, 0);
  const strongest = () => page.locator(".one-head path").evaluateAll((all) => {
    const most = {};
    for (const one of all) most[one.getAttribute("stroke")] = Math.max(most[one.getAttribute("stroke")] ?? 0, Number(one.getAttribute("stroke-opacity")));
    return Object.values(most);
  });
  const before = await strongest();
  await choice.getByRole("button", { name: "1.0" }).focus();
  const after = await strongest();
  assert.equal(after.filter((one, k) => one < 0.2 * before[k]).length, 2);
  await choice.getByRole("button", { name: "This head alone" }).click();
  assert.equal((await strokes()).length, 1);
  await choice.getByRole("button", { name: "All of its layer" }).click();
  assert.equal((await strokes()).length, data_of("translation").attentions[0].heads);
  await close();
});

test("a picture is named with its probability, and stays visible under the colours", async () => {
  const data = data_of("picture");
  const classes = [{ label: "7", probability: 0.92 }, { label: "<b>1</b>", probability: 0.05 }];
  const { page, close } = await open(report_of({ ...data, classes }));
  assert.equal(await page.locator(".picture-view .lead").innerText(), "The model reads it as 7 (92 %), then <b>1</b> (5.0 %).");
  const covers = await page.locator(".picture-view .large rect.target").evaluateAll((all) => all.map((one) => Number(one.getAttribute("fill-opacity"))));
  const [least, most] = [Math.min, Math.max].map((of) => of(...data.rollout.flat()));
  covers.forEach((cover, k) => assert.ok(Math.abs(cover - (0.6 * (data.rollout.flat()[k] - least)) / (most - least)) < 1e-9, `${covers}`));
  await close();
});
