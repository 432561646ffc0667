// Two runs: one, the other, or their difference; what cannot be subtracted is said, and both are shown.
import assert from "node:assert/strict";
import { test } from "node:test";
import { faults_of } from "./axe.mjs";
import { writeFileSync } from "node:fs";
import { data_of, hash_of, new_file, open, open_file, report_of, tab_to } from "./browser.mjs";
import { native, run } from "./program.mjs";

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
  assert.match(await page.locator(".panel").textContent(), /this run.*before.*difference.*-0\.50000/s);
  await page.getByRole("button", { name: "Before" }).click();
  assert.equal((await numbers_of(page, "output"))[7], Number(tensor_of(then, "output").values[2][1].toFixed(3)));
  await close();
});

test("steps of other sizes stand side by side", async () => {
  const { page, close } = await open(two(data_of("steps"), data_of("wide")), { hash: "#step=2&run=difference" });
  assert.match(await page.locator(".cannot").first().textContent(), /w_query is 4 x 3 here and .* there: it cannot be subtracted/);
  assert.equal(await page.getByText("before: w_query").count(), 1);
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
  assert.equal(await other.page.getByRole("heading", { name: "Before" }).count(), 1);
  await other.close();
});

test("by keyboard alone: a run beside this one is chosen, both are compared, a number and a head", async () => {
  const [now, then, last] = [data_of("steps"), structuredClone(data_of("steps")), structuredClone(data_of("steps"))];
  tensor_of(then, "output").values[0][1] -= 3;
  tensor_of(last, "output").values[0][1] += 0.25;
  const { page, close } = await open({ ...report_of(now), beside: [then, last] }, { hash: "#step=8" });
  await tab_to(page, /^button {2}Difference/);
  await page.keyboard.press("Enter");
  assert.match(await hash_of(page), /run=difference/);
  await tab_to(page, /^select {2}1: /);
  await page.keyboard.press("ArrowUp");
  assert.match(await hash_of(page), /beside=0/);
  do await tab_to(page, /^td/);
  while (!/cell=output:0\.0/.test(await hash_of(page)));
  await page.keyboard.press("ArrowRight");
  assert.match(await hash_of(page), /cell=output:0\.1/);
  assert.match(await page.locator(".panel").textContent(), /difference.*\+?3/s);
  await close();
  const [heads, other] = [data_of("translation"), structuredClone(data_of("translation"))];
  other.attentions.at(-1).all[1].weights[1][1] += 0.125;
  const second = await open(two(heads, other), { hash: "#view=heads" });
  await tab_to(second.page, /^button {2}Difference/);
  await second.page.keyboard.press("Space");
  await tab_to(second.page, /^button {2}0\.1/);
  await second.page.keyboard.press("Enter");
  await tab_to(second.page, /^div application/);
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await second.page.keyboard.press(key);
  assert.equal(await second.page.locator(".weight-of-cell").textContent(), "-0.12500");
  await second.close();
});

test("two runs, each without another head: the difference is that of what the program prints", async () => {
  const options = (head) => ["explain", "--text", "Thank you", "--without-head", head];
  const [now, then] = ["encoder-decoder.1.0", "encoder.0.1"].map((head) => native(...options(head), "--weights"));
  const [page_file, beside] = [new_file(), new_file()];
  writeFileSync(beside, JSON.stringify(then));
  run(...options("encoder-decoder.1.0"), "--html", page_file, "--compare", beside);
  const { page, close } = await open_file(page_file, { hash: "#view=heads&run=difference&attention=encoder&head=1.3&token=1&key=2" });
  const weight_in = (data, at, layer, head) => data.attentions[at].all.find((one) => one.layer === layer && one.head === head).weights[1][2];
  const change = (at, layer, head) => weight_in(now, at, layer, head) - weight_in(then, at, layer, head);
  const said = async () => Number(await page.locator(".weight-of-cell").textContent());
  assert.ok(Math.abs((await said()) - change(0, 1, 3)) < 1e-5);
  for (const head of ["encoder head 0.1", "encoder-decoder head 1.0"]) {
    assert.ok((await page.getByRole("group", { name: "Two runs" }).innerText()).includes(head), head);
  }
  // The head that one run is without: all of what it has in the other.
  assert.ok(Math.abs(change(2, 1, 0)) > 1e-3);
  await page.goto(page.url().replace(/#.*/, "#view=heads&run=difference&attention=encoder_decoder&head=1.0&token=1&key=2"));
  await page.locator("h2", { hasText: "Encoder-decoder attention, layer 1, head 0" }).waitFor();
  assert.ok(Math.abs((await said()) - change(2, 1, 0)) < 1e-5);
  for (const [run_shown, out] of [["this", "Encoder-decoder attention, head 1.0, left out"], ["other", "Encoder self-attention, head 0.1, left out"]]) {
    await page.goto(page.url().replace(/#.*/, `#view=model&run=${run_shown}`));
    await page.getByRole("link", { name: out }).waitFor();
    assert.equal(await page.getByRole("link", { name: /left out/ }).count(), 1);
  }
  await close();
});

test("axe-core finds nothing in differences", async () => {
  for (const [name, hash] of [
    ["steps", "#step=8&run=difference"],
    ["translation", "#view=heads&run=difference&token=0"],
    ["translation", "#view=translation&run=difference"],
    ["head", "#run=difference"],
    ["token", "#run=difference"],
    ["picture", "#run=difference"],
  ]) {
    const { page, close } = await open(two(data_of(name), data_of(name)), { hash });
    assert.deepEqual(await faults_of(page), [], `${name} ${hash}`);
    await close();
  }
});
