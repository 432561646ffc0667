// What a language model wrote: tokens, candidates and guesses of layers are the JSON's.
import assert from "node:assert/strict";
import { test } from "node:test";
import { hash_of, open, report_of } from "./browser.mjs";
import { native, root, writing } from "./program.mjs";

const data = native(...writing);
const { written, word_alignment } = data.continuation;

test("the token that is chosen shows what it came from and what else there was", async () => {
  const { page, close } = await open(report_of(data), { hash: "#token=2" });
  assert.deepEqual(await page.locator("nav a[aria-current=page]").allInnerTexts(), ["Write", "Writing"]);
  const others = page.getByRole("region", { name: "Candidates" }).locator("tbody .token");
  assert.deepEqual(await others.allInnerTexts(), written[2].candidates.map((one) => one.token.trim()));
  const guesses = page.getByRole("region", { name: "Layers" }).locator("tbody tr");
  assert.equal(await guesses.count(), 3);
  for (const [i, guess] of [...written[2].layers].reverse().entries()) {
    assert.equal(await guesses.nth(i).locator("th").innerText(), String(2 - i));
    assert.equal(await guesses.nth(i).locator(".token").innerText(), guess.token.trim());
  }
  const said = await page.getByRole("region", { name: "Alignment" }).innerText();
  const best = word_alignment[2].indexOf(Math.max(...word_alignment[2]));
  assert.match(said.replace(/\s+/g, " "), new RegExp(`came most from ${data.continuation.source_words[best]} `));
  await page.getByRole("button", { name: "Next token" }).click();
  assert.match(await hash_of(page), /token=3/);
  await close();
});

test("a map fits into its card with its labels, on a telephone, too", async () => {
  const long = native("explain", "--model", `${root}models/verses`, "--text", "In the beginning", "--write", "24", "--weights");
  for (const width of [1280, 390]) {
    for (const hash of ["", "#view=heads", "#view=model"]) {
      const { page, close } = await open(report_of(long), { hash, width });
      const beyond = await page.locator(".scroll").evaluateAll((all) => all.map((one) => one.scrollWidth - one.clientWidth));
      assert.ok(beyond.length > 0 && Math.max(...beyond) <= 0, `${beyond} at ${width}, ${hash}`);
      await close();
    }
  }
});

test("at first the first token that was written is chosen, not the prompt", async () => {
  const prompted = structuredClone(data);
  const target = prompted.sequences.find((one) => one.name === "target");
  target.word_of = target.word_of.map((_, i) => i - 3).map((of_word) => Math.max(-1, of_word));
  const { page, close } = await open(report_of(prompted));
  assert.equal(await page.locator(".sentence .now").innerText(), target.tokens[3]);
  await close();
});

test("heads are sorted by what they do with copies, where a query sees no later key", async () => {
  const { page, close } = await open(report_of(data), { hash: "#view=heads&head=0.1" });
  const options = await page.getByLabel("Sorted by").locator("option").allInnerTexts();
  assert.ok(options.includes("weight behind earlier copies of a token"));
  await close();
});

test("a guess that is broken is refused", async () => {
  const broken = structuredClone(data);
  broken.continuation.written[1].layers[0].written = "much";
  const { page, close } = await open(report_of(broken));
  assert.match(await page.locator("main").innerText(), /continuation.written\[1\].layers\[0\].written/);
  await close();
});
