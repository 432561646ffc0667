// The lesson: every chapter of the source, one at a time or all; its links lead to the steps; its numbers are shown ones.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { data_of, hash_of, open, report_of } from "./browser.mjs";

const folder = new URL("../../docs/lesson/", import.meta.url);
const source = readFileSync(new URL("README.md", folder), "utf8");
const written = source.split(/^## \d+\. /m).slice(1);
const titles = written.map((chapter) => chapter.split("\n")[0]);

test("each chapter has one picture, one question before its answer, and one thing to change", () => {
  assert.equal(titles.length, 11);
  for (const chapter of written) {
    assert.equal([...chapter.matchAll(/^!\[.+\]\(\w+\.svg\)$/gm)].length, 1);
    const places = [/^\*\*Predict\.\*\* /gm, /^<details><summary>Answer/gm, /^\*\*Change it\.\*\* /gm].map(
      (mark) => {
        const found = [...chapter.matchAll(mark)];
        assert.equal(found.length, 1, `${mark} in ${chapter.split("\n")[0]}`);
        return found[0].index;
      },
    );
    assert.deepEqual(
      places,
      [...places].sort((a, b) => a - b),
    );
  }
});

// What commands print is compared by scripts/check, what pictures show by web/lesson/draw.mjs --check.
test("each decimal of the text is in a picture or in what a command prints, of this chapter", () => {
  for (const chapter of written) {
    const printed = [...chapter.matchAll(/^```console$.*?^```$/gms)].map(([block]) => block).join("\n");
    const drawn = readFileSync(new URL(/\]\((\w+\.svg)\)$/m.exec(chapter)[1], folder), "utf8");
    const text = chapter.replace(/^```.*?^```$|^<!--.*$|`[^`\n]*`/gms, "");
    for (const [number] of text.matchAll(/\d+\.\d+/g)) {
      if (kDerived.has(number)) continue;
      assert.ok((printed + drawn).includes(number), `${number} in ${chapter.split("\n")[0]}`);
    }
  }
});
// exp(2); 1.262 / 0.353; 1 / 64
const kDerived = new Set(["7.38906", "3.6", "0.02"]);

test("all chapters by scrolling, and one at a time", async () => {
  const { page, close } = await open(report_of(data_of("steps")), { hash: "#view=lesson" });
  const shown = () => page.locator(".chapter h2").allInnerTexts();
  assert.deepEqual(
    (await shown()).slice(1),
    titles.map((title, i) => `${i + 1} ${title}`),
  );
  assert.equal(await page.locator(".chapter figure svg[role=img][aria-label]").count(), titles.length);
  await page.getByRole("link", { name: titles[3] }).click();
  assert.deepEqual(await shown(), [`4 ${titles[3]}`]);
  assert.equal(await hash_of(page), "#view=lesson&chapter=4");
  await page.getByRole("button", { name: "Next chapter" }).click();
  assert.equal(await hash_of(page), "#view=lesson&chapter=5");
  await page.getByRole("button", { name: "Back" }).press("Enter");
  assert.equal(await hash_of(page), "#view=lesson&chapter=4");
  await page.getByRole("link", { name: "All chapters" }).click();
  assert.equal((await shown()).length, titles.length + 1);
  await close();
});

test("the answer is asked for", async () => {
  const { page, close } = await open(report_of(data_of("steps")), { hash: "#view=lesson&chapter=4" });
  const answer = page.getByText("softmax looks at differences");
  assert.equal(await answer.isVisible(), false);
  await page.getByText("Answer").press("Enter");
  assert.equal(await answer.isVisible(), true);
  await close();
});

test("a chapter leads to the steps, in the state it speaks of", async () => {
  for (const [chapter, place] of written.entries()) {
    const address = /^<!-- page: (\S+) -->$/m.exec(place)?.[1];
    if (!address) continue;
    const { page, close } = await open(report_of(data_of("steps")), { hash: `#view=lesson&chapter=${chapter + 1}` });
    await page.getByRole("link", { name: "Open it in the steps" }).click();
    const cell = new URLSearchParams(address).get("cell");
    await page.locator(`.panel[data-cell="${cell}"]`).waitFor();
    await close();
  }
});

test("a report without steps has the lesson without those links", async () => {
  const { page, close } = await open(report_of(data_of("translation")), { hash: "#view=lesson" });
  assert.equal(await page.locator(".chapter").count(), titles.length + 1);
  assert.equal(await page.getByRole("link", { name: "Open it in the steps" }).count(), 0);
  await close();
});
