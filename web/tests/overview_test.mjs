// The picture of the whole computation: its parts lead to their steps, its ribbons are as wide as the weights.
import assert from "node:assert/strict";
import { test } from "node:test";
import { data_of, hash_of, open, report_of } from "./browser.mjs";

const whole = (page) => page.getByRole("group", { name: "The whole computation" });

test("each part is lit in its step and leads there, in view beside the last matrix", async () => {
  for (const width of [1280, 390]) {
    const { page, close } = await open(report_of(data_of("steps")), { hash: "#step=1", width });
    const titles = () => whole(page).locator("[aria-current=step]").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")));
    assert.deepEqual(await titles(), ["Step 1: inputs"]);
    for (const title of ["Step 3: Q  K  V", "Step 4: scores", "Step 5: weights", "Step 6: x values", "Step 7: outputs"]) {
      await whole(page).getByRole("link", { name: title }).click();
      assert.deepEqual(await titles(), [title]);
      assert.equal(await hash_of(page), `#view=steps&step=${title[5]}`);
    }
    await page.locator(".matrix").last().scrollIntoViewIfNeeded();
    const { y, height } = await whole(page).boundingBox();
    assert.ok(y >= -1 && y + height <= 800, `${y}, ${height} at ${width}`);
    await close();
  }
});

test("ribbons are as wide as the weights of their query", async () => {
  const data = data_of("steps");
  const tensors = data.sections.flatMap(({ blocks }) => blocks.flatMap((block) => block.tensors));
  const weights = tensors.find(({ name }) => name === "weights").values;
  const { page, close } = await open(report_of(data), { hash: "#step=6&query=0" });
  const widths = await whole(page).locator("path[opacity='0.7']").evaluateAll((all) => all.map((one) => Number(one.getAttribute("stroke-width"))));
  assert.equal(widths.length, 3);
  widths.forEach((width, j) => assert.ok(Math.abs(width / widths[1] - weights[0][j] / weights[0][1]) < 0.02, `${width}`));
  await close();
});

test("with heads, masks and other scores it is there, of too many inputs it is not", async () => {
  for (const [name, count] of [["two_heads", 1], ["causal", 1], ["additive", 1], ["concat", 1], ["bilinear", 1]]) {
    const { page, close } = await open(report_of(data_of(name)), { hash: "#step=5" });
    assert.equal(await whole(page).count(), count, name);
    await close();
  }
});

test("the map of a model ends at the word that was written", async () => {
  const data = data_of("translation");
  const { token, probability } = data.translation.written[0];
  const { page, close } = await open(report_of(data), { hash: "#view=model" });
  const texts = await page.locator(".model text").allTextContents();
  assert.deepEqual(texts.slice(-5, -1), ["Output projection", "a score for each token", "Softmax", "scores become probabilities"]);
  assert.equal(texts.at(-1), `Token 1: ${token}, ${(100 * probability).toFixed(0)} %`);
  await page.getByRole("link", { name: /What was written/ }).click();
  assert.match(await hash_of(page), /view=translation/);
  await close();
});
