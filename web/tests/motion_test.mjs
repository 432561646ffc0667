// The steps in motion: what each beat shows follows from the numbers of the report, and nothing moves where it is not to.
import assert from "node:assert/strict";
import { test } from "node:test";
import { data_of, go_to, hash_of, open, report_of } from "./browser.mjs";
import { until } from "./live.mjs";
import { native } from "./program.mjs";

const said = (page) => page.locator(".beat").innerText();
const tensors_of = (data) => new Map(data.sections.flatMap(({ blocks }) => blocks.flatMap(({ tensors }) => tensors)).map((one) => [one.name, one.values]));
const five = (value) => (Number.isInteger(value) ? String(value) : value.toFixed(5));

test("beat by beat: products, their sum, exponentials, weights, weighted values", async () => {
  for (const [name, query] of [["steps", 0], ["causal", 1]]) {
    const data = data_of(name);
    const tensors = tensors_of(data);
    const { page, close } = await open(report_of(data), { hash: `#step=4&query=${query}` });
    await page.getByRole("button", { name: "In motion" }).click();
    const [q, keys] = [tensors.get("query")[query], tensors.get("key")];
    const beats = [await said(page)];
    const on = page.getByRole("button", { name: "Step on" });
    while (await on.isEnabled()) {
      await on.click();
      beats.push(await said(page));
    }
    keys.forEach((key, j) => {
      const products = key.map((k, d) => `${five(q[d])} x ${five(k)}`).join(" + ");
      const score = key.reduce((sum, k, d) => sum + k * q[d], 0);
      assert.ok(beats.some((beat) => beat.startsWith(`${products} = ${five(score)}: the score of input ${j + 1}.`)), products);
    });
    const weights = tensors.get("weights")[query];
    weights.forEach((weight, j) => assert.ok(beats.some((beat) => beat.startsWith(`${five(weight)} of the value of input ${j + 1}`))));
    assert.equal(beats.at(-1), `Their sum is the output of input ${query + 1}: ${tensors.get("output")[query].map(five).join(", ")}`);
    assert.match(await hash_of(page), new RegExp(`step=7&.*beat=${beats.length - 1}`));
    const shown = await page.locator(".motion text[font-weight='700']").allTextContents();
    assert.deepEqual(shown.slice(-3).map(Number), tensors.get("output")[query].map((value) => Number(value.toFixed(2))));
    await close();
  }
});

test("it plays by itself, stops at the end, and not where motion is to be reduced", async () => {
  const { page, close } = await open(report_of(data_of("steps")), { hash: "#step=4&beat=0", reducedMotion: "no-preference" });
  await page.getByLabel("Speed").selectOption("4");
  await page.getByRole("button", { name: "Play" }).click();
  await until(page, () => document.querySelector(".beat").textContent.startsWith("Their sum is"));
  await page.getByRole("button", { name: "Play" }).waitFor();
  assert.match(await hash_of(page), /step=7.*beat=16/);
  await page.getByRole("button", { name: "Play" }).click(); // anew
  await page.getByRole("button", { name: "Pause" }).click();
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.getByText("Motion is turned off on this device").waitFor();
  assert.equal(await page.getByRole("button", { name: "Play" }).count(), 0);
  await go_to(page, { beat: 2 });
  await page.getByText("3 of 17").waitFor();
  await page.getByRole("button", { name: "Step on" }).click();
  assert.match(await hash_of(page), /beat=3/);
  const moving = await page.locator(".moves").evaluateAll((all) => all.filter((one) => getComputedStyle(one).transitionDuration !== "0s").length);
  assert.equal(moving, 0);
  await close();
});

test("where a weight does not follow from Q and K as drawn, or there are too many numbers, it is not offered", async () => {
  for (const [name, count] of [["steps", 1], ["causal", 1], ["two_heads", 1], ["substituted", 0], ["additive", 0], ["wide", 1], ["nine", 0]]) {
    const data = name === "nine" ? native("explain", "--inputs", "9") : data_of(name);
    const { page, close } = await open(report_of(data), { hash: "#step=5&beat=3" });
    assert.equal(await page.locator(".motion").count(), count, name);
    assert.equal(await page.getByRole("button", { name: "In motion" }).count(), count, name);
    await close();
  }
});
