// Two runs: one, the other, or their difference; what cannot be subtracted is said, and both are shown.
import assert from "node:assert/strict";
import { test } from "node:test";
import { faults_of } from "./axe.mjs";
import { data_of, hash_of, open, report_of } from "./browser.mjs";

const two = (now, then) => ({ ...report_of(now), beside: [then] });
const tensor_of = (steps, name) =>
  steps.sections.flatMap(({ blocks }) => blocks.flatMap(({ tensors }) => tensors)).find((one) => one.name === name);
const numbers_of = (page, name) =>
  page.evaluate(
    (asked) => [...document.querySelectorAll(`td[data-id^="${asked}:"]`)].map((cell) => Number(cell.textContent)),
    name,
  );

test("steps: this run, the other, and each number less the other's", async () => {
  const [now, then] = [data_of("steps"), structuredClone(data_of("steps"))];
  tensor_of(then, "output").values[0][0] += 0.5;
  tensor_of(then, "output").values[2][1] -= 2;
  const { page, close } = await open(two(now, then), { hash: "#step=8&cell=output:0.0" });
  await page.getByRole("button", { name: "Difference" }).click();
  assert.match(await hash_of(page), /run=difference/);
  assert.deepEqual(await numbers_of(page, "output"), [-0.5, 0, 0, 0, 0, 0, 0, 2, 0]);
  assert.match(await page.locator(".panel").textContent(), /this run.*the other.*difference.*-0\.50000/s);
  await page.getByRole("button", { name: "The other" }).click();
  assert.equal((await numbers_of(page, "output"))[7], Number(tensor_of(then, "output").values[2][1].toFixed(3)));
  await close();
});

test("steps of other sizes stand side by side", async () => {
  const { page, close } = await open(two(data_of("steps"), data_of("wide")), { hash: "#step=2&run=difference" });
  assert.match(await page.locator(".cannot").first().textContent(), /w_query is 4 x 3 here and .* there: it cannot be subtracted/);
  assert.equal(await page.getByText("the other: w_query").count(), 1);
  await close();
});

test("heads: weights and measures less the other's, and where tokens differ both", async () => {
  const [now, then] = [data_of("translation"), structuredClone(data_of("translation"))];
  const head = then.attentions.at(-1).all[0];
  head.weights[0][0] += 0.25;
  head.entropy += 1;
  const { page, close } = await open(two(now, then), { hash: "#view=heads&run=difference&token=0&key=0" });
  assert.equal(await page.locator(".weight-of-cell").textContent(), "-0.25000");
  assert.match(await page.locator(".measures tbody tr").first().textContent(), /2\.25\s+-1\s/);
  await page.goto(page.url().replace(/#.*/, "#view=heads&run=difference&token=0&also=1&key=0"));
  await page.waitForSelector(".said-of-head .role-query:nth-of-type(2)");
  assert.match(await page.locator(".said-of-head").textContent(), /The sum of their weights to .* changed by\s+-0\.25000/);
  await page.goto(page.url().replace(/#.*/, "#view=model&run=difference"));
  assert.match(await page.locator(".cannot").textContent(), /of this run alone/);
  await close();
  then.sequences.forEach((one) => (one.tokens = one.tokens.map((token) => `${token}x`)));
  const other = await open(two(now, then), { hash: "#view=heads&run=difference" });
  assert.match(await other.page.locator(".cannot").textContent(), /other tokens here: their weights cannot be subtracted/);
  assert.equal(await other.page.getByRole("heading", { name: "The other run" }).count(), 1);
  await other.close();
});

for (const scheme of ["light", "dark"]) {
  test(`axe-core finds nothing in differences, ${scheme}`, async () => {
    for (const [name, hash] of [
      ["steps", "#step=8&run=difference"],
      ["translation", "#view=heads&run=difference&token=0"],
      ["translation", "#view=translation&run=difference"],
      ["head", "#run=difference"],
      ["token", "#run=difference"],
      ["picture", "#run=difference"],
    ]) {
      const { page, close } = await open(two(data_of(name), data_of(name)), { hash, scheme });
      assert.deepEqual(await faults_of(page), [], `${name} ${hash}`);
      await close();
    }
  });
}
