// The steps: the products that are shown are those of the JSON, whatever the score.
import assert from "node:assert/strict";
import { test } from "node:test";
import { data_of, hash_of, open, report_of } from "./browser.mjs";

const tensors_of = (data) => {
  const all = data.sections.flatMap((section) => section.blocks.flatMap((block) => block.tensors));
  return new Map(all.map((tensor) => [tensor.name, tensor]));
};
const at = (values, index) => index.reduce((list, i) => list[i], values);
const number = (value) => (typeof value === "number" ? value : { inf: Infinity, "-inf": -Infinity, nan: NaN }[value]);

function* indices(shape, before = []) {
  if (shape.length === 0) yield before;
  else for (let i = 0; i < shape[0]; ++i) yield* indices(shape.slice(1), [...before, i]);
}

const terms_of = (page) =>
  page.locator(".terms [data-value]").evaluateAll((rows) => rows.map((row) => Number(row.dataset.value)));
const close_to = (actual, expected, where) =>
  assert.ok(Math.abs(actual - expected) <= 1e-9 * (1 + Math.abs(expected)), `${where}: ${actual}, not ${expected}`);

// Each cell of a tensor: its products add up to it, by `close`.
async function check_sums(page, name, step, shape, values, finish = (sum) => sum) {
  for (const index of indices(shape)) {
    await page.evaluate(
      (hash) => (location.hash = hash),
      `#step=${step}&query=${index.at(-2) ?? 0}&cell=${encodeURIComponent(name)}:${index.join(".")}`,
    );
    await page.locator(`.panel[data-cell="${name}:${index.join(".")}"]`).waitFor();
    const expected = number(at(values, index));
    if (expected === -Infinity) continue;
    const sum = (await terms_of(page)).reduce((total, term) => total + term, 0);
    close_to(finish(sum, index), expected, `${name} ${index}`);
  }
}

for (const [name, scale] of [
  ["steps", 1],
  ["causal", 0.5],
  ["additive", 1],
  ["concat", 1],
  ["bilinear", 1],
]) {
  test(`products of ${name} add up to its numbers`, async () => {
    const data = data_of(name);
    const tensors = tensors_of(data);
    const { page, close } = await open(report_of(data));
    for (const part of ["query", "key", "value"])
      await check_sums(page, part, 3, tensors.get(part).shape, tensors.get(part).values);
    const { shape, values } = tensors.get("logits");
    await check_sums(page, "logits", 8, shape, values, (sum) => sum * scale);
    await check_sums(page, "weights", 8, shape, tensors.get("weights").values);
    await check_sums(page, "log_sum_exp", 8, [shape[0]], tensors.get("log_sum_exp").values, Math.log);
    await check_sums(page, "output", 8, tensors.get("output").shape, tensors.get("output").values);
    await close();
  });
}

test("the products of an output are the weighted values", async () => {
  const data = data_of("steps");
  const weighted = tensors_of(data).get("weighted_values").values;
  const { page, close } = await open(report_of(data), { hash: "#step=8&cell=output:1.2" });
  const terms = await terms_of(page);
  weighted[1].forEach((row, j) => close_to(terms[j], row[2], `key ${j}`));
  await close();
});

test("with heads, every number follows from the ones before", async () => {
  const data = data_of("two_heads");
  const tensors = tensors_of(data);
  const { page, close } = await open(report_of(data));
  for (const [name, step] of [
    ["projected query", 2],
    ["query", 3],
    ["value", 3],
    ["weights", 5],
    ["heads", 6],
    ["merged", 7],
    ["output", 8],
  ]) {
    await check_sums(page, name, step, tensors.get(name).shape, tensors.get(name).values);
  }
  await check_sums(
    page,
    "logits",
    4,
    tensors.get("logits").shape,
    tensors.get("logits").values,
    (sum) => sum * data.scale,
  );
  await close();
});

test("of more than 16 products the eight largest, and the others as one", async () => {
  const data = data_of("wide");
  const { page, close } = await open(report_of(data), { hash: "#step=3&cell=query:0.0" });
  assert.equal(await page.locator(".term").count(), 8);
  assert.match(await page.locator(".others").innerText(), /^32 others/);
  const sum = (await terms_of(page)).reduce((total, term) => total + term, 0);
  close_to(sum, tensors_of(data).get("query").values[0][0], "sum");
  await close();
});

test("a cell lights where its products come from", async () => {
  const { page, close } = await open(report_of(data_of("steps")), { hash: "#step=3&cell=key:1.2" });
  const lit = await page.locator(".cell.lit").evaluateAll((cells) => cells.map((cell) => cell.dataset.id));
  const expected = [0, 1, 2, 3].flatMap((k) => [`inputs:1.${k}`, `w_key:${k}.2`]);
  assert.deepEqual(lit.sort(), expected.sort());
  await close();
});

test("a hidden key names the rule that hides it", async () => {
  const data = data_of("causal");
  const { page, close } = await open(report_of(data), { hash: "#step=8&cell=logits:0.2" });
  assert.equal(await page.locator(".panel .note").innerText(), data.mask.rules[0]);
  assert.equal(await page.locator(".panel .value").innerText(), "-inf");
  await close();
});

test("what was put in by hand is said to be", async () => {
  const { page, close } = await open(report_of(data_of("substituted")), { hash: "#step=8&cell=weights:0.1" });
  assert.match(await page.locator(".panel").innerText(), /Put in by hand/);
  await close();
});

const text_of = (locator) => locator.allInnerTexts().then((all) => all.join(" ").replace(/\s+/g, " ").trim());

// What a row of weights adds up to is said where it is not 1, of the rows that are shown.
test("rows of weights that do not add up to 1 are named", async () => {
  const data = data_of("substituted");
  const rows = [[0.5, 0.3, 0.137], [0, 1, 0], [5, 0, -1]];
  for (const tensor of data.sections.flatMap(({ blocks }) => blocks.flatMap(({ tensors }) => tensors))) {
    if (tensor.name === "weights") tensor.values = rows;
  }
  for (const [hash, said] of [
    ["#step=8", "Do not add up to 1: query 1 (0.93700), query 3 (4)."],
    ["#step=5", "Do not add up to 1: query 1 (0.93700)."],
    ["#step=5&query=1", ""],
    ["#step=5&query=2", "Do not add up to 1: query 3 (4)."],
  ]) {
    const { page, close } = await open(report_of(data), { hash });
    assert.equal(await text_of(page.locator(".row-sums")), said, hash);
    await close();
  }
});

test("what would be without what was put in is not called given", async () => {
  const { page, close } = await open(report_of(data_of("substituted")), { hash: "#step=8&cell=true weights:0.1" });
  assert.match(await page.locator(".panel").innerText(), /What it would be if nothing were put in/);
  await close();
});

test("a logit is hidden where the mask hides it, not where its score is -inf", async () => {
  const data = data_of("causal");
  const tensors = tensors_of(data);
  tensors.get("scores").substituted = true; // of what was put in, too
  const { page, close } = await open(report_of(data), { hash: "#step=8&cell=logits:0.2" });
  assert.equal(await page.locator(".panel .note").innerText(), data.mask.rules[0]);
  await close();
  tensors.get("scores").values[2][0] = tensors.get("logits").values[2][0] = "-inf";
  const second = await open(report_of(data), { hash: "#step=8&cell=logits:2.0" });
  assert.equal(await second.page.locator(".panel .note").count(), 0);
  await second.close();
});

test("any query, and what is chosen by pointer, stand in the address", async () => {
  const { page, close } = await open(report_of(data_of("steps")));
  await page.locator("[role=tab]").nth(6).click();
  await page.locator("select").selectOption("2");
  await page.locator("[data-id='output:2.1']").click();
  assert.equal(await hash_of(page), "#step=7&query=2&cell=output:2.1");
  assert.match(await page.locator(".step h2").innerText(), /Sum to output 3/);
  await page.reload();
  assert.equal(await page.locator(".cell.chosen").getAttribute("data-id"), "output:2.1");
  await close();
});

test("each matrix of the softmax says of which query it is, once", async () => {
  const { page, close } = await open(report_of(data_of("steps")), { hash: "#step=5&query=1" });
  const names = await page.locator(".matrix .name").allInnerTexts();
  assert.ok(names.some((name) => name.startsWith("log_sum_exp, ")), names.join("; "));
  for (const name of names) assert.doesNotMatch(name, /^(\w+), \1/);
  assert.equal(new Set(names).size, names.length);
  await close();
});

test("in print bars have their colours", async () => {
  const { page, close } = await open(report_of(data_of("steps")), { hash: "#step=8&cell=output:0.0" });
  await page.emulateMedia({ media: "print" });
  const bars = await page.locator(".terms .bar i").evaluateAll((all) => all.map((one) => getComputedStyle(one).printColorAdjust));
  assert.ok(bars.length > 0);
  for (const adjust of bars) assert.equal(adjust, "exact");
  await close();
});

// By hand: exp(2), exp(4), exp(4), their sum, each one's share; exp of the entropy of 0.06338, 0.46831, 0.46831.
test("softmax is shown whole: exponentials, their sum, shares, and how many keys it spreads over", async () => {
  const { page, close } = await open(report_of(data_of("steps")), { hash: "#step=5&cell=weights:0.1" });
  const [small, large] = [Math.exp(2), Math.exp(4)];
  const sum = small + 2 * large;
  const rows = await page.locator(".softmax tr").evaluateAll((all) => all.map((row) => row.textContent.replace(/\s+/g, " ").trim()));
  assert.deepEqual(
    rows.map((row) => row.replace(/^key \d /, "")),
    [[2, small], [4, large], [4, large]]
      .map(([logit, exp]) => `exp(${logit}) ${exp.toFixed(3)} / ${sum.toFixed(3)} = ${(exp / sum).toFixed(5)}`)
      .concat(`sum ${sum.toFixed(3)} 1`),
  );
  assert.equal(await page.locator(".panel .formula").innerText(), "weight = exp(logit) / sum of all exp(logit) of the row");
  const entropy = -[small, large, large].reduce((total, exp) => total + (exp / sum) * Math.log(exp / sum), 0);
  assert.match(await page.locator(".panel").innerText(), new RegExp(`Spread over exp\\(entropy\\) = ${Math.exp(entropy).toFixed(2)} of 3 keys`));
  assert.equal(await page.locator(".panel .terms:not(.softmax)").isVisible(), false);
  await page.getByText("With log_sum_exp").click();
  assert.equal(await page.locator(".panel .terms:not(.softmax)").isVisible(), true);
  await close();
});

test("logits too large for exp give shares, too", async () => {
  const data = data_of("steps");
  tensors_of(data).get("logits").values[0] = [800, 800, "-inf"];
  const { page, close } = await open(report_of(data), { hash: "#step=8&cell=weights:0.0" });
  const rows = await page.locator(".softmax tbody td:last-child").allInnerTexts();
  assert.deepEqual(rows, ["/ 2 = 0.50000", "/ 2 = 0.50000", "/ 2 = 0", "1"]);
  await close();
});

test("what is said between the steps is of the page: roles, shares, results side by side", async () => {
  const data = data_of("steps");
  const { page, close } = await open(report_of(data), { hash: "#step=1" });
  assert.deepEqual(await page.locator(".role-line .said").allInnerTexts(), ["query", "key", "value"]);
  await page.evaluate(() => void (location.hash = "#step=8"));
  const shares = await page.locator(".attending li").first().innerText();
  assert.equal(shares.replace(/\s+/g, " "), "input 1 attends to input 2 47 % input 3 47 % input 1 6.3 %");
  assert.equal(await page.locator(".ways-side .matrix").count(), 3);
  const fonts = await page.locator(".remark p").evaluateAll((all) => all.filter((one) => !one.closest(".lines")).map((one) => getComputedStyle(one).fontFamily));
  for (const font of fonts) assert.doesNotMatch(font, /mono/i);
  await close();
});
