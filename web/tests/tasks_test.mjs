// Five questions of a reader, each answered in at most four actions from the first screen: a click, a key, a change of a
// field. The answers are those of the JSON or of arithmetic by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { data_of, new_file, open, open_file, report_of } from "./browser.mjs";
import { model, native, run } from "./program.mjs";

const kMost = 4;

// Every action goes through act(): the fifth fails. `opened` shows the first screen: its address says nothing.
async function task(opened, answer) {
  const { page, close } = await opened;
  let actions = 0;
  await answer(page, (place, action, ...argument) => {
    assert.ok(++actions <= kMost, `more than ${kMost} actions`);
    return place[action](...argument);
  });
  await close();
}

const tensor_of = (steps, name) =>
  steps.sections.flatMap(({ blocks }) => blocks.flatMap(({ tensors }) => tensors)).find((one) => one.name === name).values;
const close_to = (actual, expected, bound) =>
  assert.ok(Math.abs(actual - expected) <= bound, `${actual}, not ${expected}`);

test("what does \"it\" look at most in head 1.2 of the encoder?", async () => {
  const text = "The cat did not sleep because it was hungry.";
  const data = native("explain", "--model", model, "--text", text, "--weights");
  const { tokens } = data.sequences[0];
  const it = tokens.indexOf("it");
  assert.ok(it > 0);
  const row = data.attentions[0].all.find(({ layer, head }) => layer === 1 && head === 2).weights[it];
  await task(open(report_of(data)), async (page, act) => {
    await act(page.getByRole("link", { name: "Model", exact: true }), "click");
    await act(page.getByRole("link", { name: "Encoder self-attention, head 1.2" }), "click");
    await act(page.locator(".one-head select"), "selectOption", { label: `${it + 1}: it` });
    const said = page.locator(".said-of-head");
    assert.equal(await said.locator(".role-query").innerText(), "it");
    assert.equal(await said.locator(".role-key").first().innerText(), tokens[row.indexOf(Math.max(...row))]);
  });
});

// Scores 2, 4, 4 of values (1 2 3), (2 8 0), (2 6 3): weights 1, e^2, e^2 over their sum, and not 0, 1/2, 1/2.
test("why is output 1 not 2.0 7.0 1.5?", async () => {
  await task(open(report_of(data_of("steps"))), async (page, act) => {
    await act(page.getByRole("tab").last(), "click");
    await act(page.locator('td[data-id="output:0.0"]'), "click");
    const terms = await page.locator(".term").evaluateAll((rows) => rows.map((row) => Number(row.dataset.value)));
    const e2 = Math.exp(2);
    const weights = [1, e2, e2].map((one) => one / (1 + 2 * e2));
    [1, 2, 2].forEach((value, j) => close_to(terms[j], weights[j] * value, 1e-12));
    close_to(terms.reduce((a, b) => a + b), 1.93662, 5e-6);
    assert.match(await page.locator("main").innerText(), /0\.06338 rounds to 0\.1, not to 0\.0/);
  });
});

test("which head looks one back?", async () => {
  const data = data_of("translation");
  const { all } = data.attentions.find(({ name }) => name === "decoder");
  const back = ({ weights }) => weights.reduce((sum, row, i) => sum + (i > 0 ? row[i - 1] : 0), 0);
  const most = all.reduce((best, one) => (back(one) > back(best) ? one : best));
  await task(open(report_of(data)), async (page, act) => {
    await act(page.getByRole("link", { name: "Heads", exact: true }), "click");
    await act(page.getByRole("button", { name: "Masked decoder self-attention" }), "click");
    await act(page.getByLabel("Sorted by"), "selectOption", { label: "weight to the token before" });
    const first = await page.locator(".tile-name").first().innerText();
    assert.equal(first.trim().split(/\s/)[0], `${most.layer}.${most.head}`);
  });
});

// A look-ahead mask hides from query i the keys after i: of n queries n (n - 1) / 2 pairs.
test("what did the mask hide?", async () => {
  const data = data_of("translation");
  const n = data.sequences.find(({ name }) => name === "read").tokens.length;
  await task(open(report_of(data)), async (page, act) => {
    await act(page.getByRole("link", { name: "Model", exact: true }), "click");
    const card = page.getByLabel("Mask of Masked decoder self-attention");
    assert.match(await card.innerText(), new RegExp(`No query sees a later key\\. Hidden: ${(n * (n - 1)) / 2} of ${n * n} pairs`));
    const crosses = (await card.locator("svg path").getAttribute("d")).split("M").length - 1;
    assert.equal(crosses, (n * (n - 1)) / 2);
  });
});

// The sum over what head 2 adds: its columns of the merged heads times its rows of w_out.
test("what changes without head 2?", async () => {
  const example = native("explain");
  const given = ["inputs", "w_query", "w_key", "w_value"].flatMap((name) => [
    `--${name === "inputs" ? "input" : name.replace("_", "-")}`,
    JSON.stringify(tensor_of(example, name)),
  ]);
  const whole = native("explain", "--heads", "3", ...given);
  const [merged, w_out, output] = ["merged", "w_out", "output"].map((name) => tensor_of(whole, name));
  const expected = output.map((row, i) => row.map((value, d) => value - merged[i][1] * w_out[1][d]));
  assert.ok(expected.some((row, i) => row.some((value, d) => Math.abs(value - output[i][d]) > 0.01)));
  const file = new_file();
  run("web", "--out", file);
  await task(open_file(file), async (page, act) => {
    await act(page.getByRole("link", { name: "Steps", exact: true }), "click");
    await act(page.locator(".live label", { hasText: "Heads" }).locator("select"), "selectOption", "3");
    await act(page.getByRole("button", { name: "Without head 2" }), "click");
    await page.getByRole("button", { name: "head 2 is out" }).waitFor();
    await act(page.getByRole("tab").last(), "click");
    const cells = page.locator('td[data-id^="output:"]');
    await cells.first().waitFor();
    (await cells.allInnerTexts()).forEach((text, i) => close_to(Number(text), expected.flat()[i], 5.1e-4));
    assert.equal(await cells.count(), expected.flat().length);
  });
});
