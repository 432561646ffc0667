// Data that are broken, of another version or hostile: named in one line, or shown as text, never run.
import assert from "node:assert/strict";
import { test } from "node:test";
import { data_of, open, report_of } from "./browser.mjs";

const alert_of = (page) => page.locator("[role=alert]").innerText();

async function check_fault(report, expected) {
  const { page, close } = await open(report);
  assert.match(await alert_of(page), expected);
  assert.equal(await page.locator("details.all-numbers table").count(), 1); // the tables stay
  await close();
}

test("data that are cut off are named", () => check_fault('{"schema":"qkv/report/1","title"', /cut off or broken/));
test("a page without data is named", () => check_fault("", /cut off or broken/));
test("another major version is refused in one line", async () => {
  await check_fault(
    { ...report_of(data_of("steps")), schema: "qkv/report/2" },
    /^The data are of version 2, this page shows version 1: .*\.$/,
  );
  await check_fault(report_of({ ...data_of("steps"), schema: "qkv/explain/7" }), /^The data are of version 7/);
  await check_fault(report_of({ ...data_of("steps"), schema: undefined }), /have no "schema"/);
});
test("a kind that the page does not know is named", () =>
  check_fault(report_of({ ...data_of("steps"), kind: "dance" }), /no explanation of the kind "dance"/));
test("a broken member is named by its place", async () => {
  const data = data_of("steps");
  data.sections[0].blocks[0] = {
    lines: [],
    pictures: [],
    tensors: [{ name: "x", role: "input", shape: [2], rows: [], columns: [], substituted: false, values: [1] }],
  };
  await check_fault(
    report_of(data),
    /^The data are broken: sections\[0\]\.blocks\[0\]\.tensors\[0\]\.values must have 2 entries, not 1\.$/,
  );
});
test("one broken explanation leaves the others", async () => {
  const { page, close } = await open(report_of({ ...data_of("steps"), dtype: "f8" }, data_of("head")));
  assert.match(await alert_of(page), /dtype must be one of f32, f64/);
  assert.match(await page.locator(".step h2").innerText(), /gets its output/);
  await close();
});
test("new members of the same version are no fault", async () => {
  const { page, close } = await open(report_of({ ...data_of("steps"), later: { more: 1 } }));
  assert.equal(await page.locator("[role=alert]").count(), 0);
  await close();
});

test("numbers that are none are shown as such", async () => {
  const data = data_of("head");
  data.weights[0][1] = "nan";
  data.output[0][0] = "inf";
  const { page, close } = await open(report_of(data), { hash: "#cell=output:0.0" });
  assert.equal(await page.locator(".panel .value").innerText(), "inf");
  assert.match(await page.locator(".terms").innerText(), /nan/);
  await close();
});

const kHostile = [
  '<img src=x onerror="alert(1)">',
  "</script><script>alert(2)</script>",
  "'\"`${alert(3)}{{7*7}}",
  "<!--qkv:data-->&lt;&amp;",
  "\u202Eright to left override",
  "\u05E9\u05DC\u05D5\u05DD \u0639\u0631\u0628\u064A",
  "\u{1F468}\u200D\u{1F469}\u200D\u{1F467}",
  "e\u0301\u0301\u0301\u0301",
  "javascript:alert(4)",
  "a".repeat(3000),
];

test("hostile text is shown and nothing of it runs", async () => {
  const data = data_of("translation");
  for (const sequence of data.sequences) {
    sequence.tokens = sequence.tokens.map((_, i) => kHostile[i % kHostile.length]);
    sequence.words = sequence.words.map((_, i) => kHostile[i % kHostile.length]);
  }
  data.title = data.input = data.translation.source_text = data.translation.target_text = kHostile.join(" ");
  data.translation.source_words = data.translation.source_words.map((_, i) => kHostile[i]);
  data.translation.target_words = data.translation.target_words.map((_, i) => kHostile[i]);
  for (const written of data.translation.written) {
    written.token = kHostile[0];
    written.candidates.forEach((one, i) => (one.token = kHostile[i]));
  }
  const report = { ...report_of(data), title: kHostile.join(" "), command: kHostile[0] };
  for (const hash of [
    "#view=translation",
    "#view=heads&token=1",
    "#view=heads&show=lines",
    "#view=heads&show=row&token=1",
    "#view=heads&attention=<b>&sort=%3Cimg%3E",
    "#view=model&cell=encoder.layers.0.output",
  ]) {
    const { page, close } = await open(report, { hash });
    const text = await page.locator("#page").evaluate((node) => node.textContent);
    for (const one of [kHostile[0], kHostile[1], kHostile[6]]) assert.ok(text.includes(one), one);
    assert.equal(await page.locator("#page img[src=x], #page script").count(), 0);
    const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(beyond <= 0, `${hash}: ${beyond} pixels too wide`);
    await close();
  }
});

test("hostile names of a head, a token and steps are shown and nothing of them runs", async () => {
  const hostile = (names) => names.map((_, i) => kHostile[i % kHostile.length]);
  const head = data_of("head");
  head.tokens = hostile(head.tokens);
  head.keys = hostile(head.keys);
  const token = data_of("token");
  token.tokens = hostile(token.tokens);
  for (const one of token.keys) one.tokens = hostile(one.tokens);
  const steps = data_of("steps");
  for (const { blocks } of steps.sections) {
    for (const { lines, tensors } of blocks) {
      for (const line of lines) for (const piece of line) piece.text = kHostile[1];
      for (const one of tensors) Object.assign(one, { rows: hostile(one.rows), columns: hostile(one.columns) });
    }
  }
  for (const [data, hash] of [[head, "#token=1"], [token, ""], [steps, "#step=3"], [steps, "#step=8"]]) {
    data.title = kHostile[0];
    const { page, close } = await open(report_of(data), { hash });
    assert.ok((await page.locator("#page").evaluate((node) => node.textContent)).includes(kHostile[0]));
    assert.equal(await page.locator("#page img[src=x], #page script").count(), 0);
    await close();
  }
});

test("addresses that name nothing show the start", async () => {
  for (const hash of [
    "#view=none&of=99&step=99&query=99&cell=output:9.9",
    "#cell=%ff&head=a.b",
    "#view=heads&token=99999&key=7",
  ]) {
    const { page, close } = await open(report_of(data_of("steps")), { hash });
    assert.equal(await page.locator(".step h2").count(), 1);
    await close();
  }
});

test("a sentence that is written from right to left stands so", async () => {
  const data = data_of("translation");
  data.translation.source_words = data.translation.source_words.map(() => kHostile[5]);
  const { page, close } = await open(report_of(data));
  const [source, target] = await page
    .locator(".sentence")
    .evaluateAll((all) => all.map((one) => getComputedStyle(one).direction));
  assert.deepEqual([source, target], ["rtl", "ltr"]);
  const [first, second] = await page
    .locator(".word")
    .evaluateAll((all) => all.map((one) => one.getBoundingClientRect().x));
  assert.ok(first > second);
  await close();
});
