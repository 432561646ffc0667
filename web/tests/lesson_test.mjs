// The lesson: every chapter of the source, one at a time or all; its links lead to the steps; its numbers are shown ones.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { data_of, hash_of, new_file, open, open_file, report_of } from "./browser.mjs";
import { folder, questions_of, titles, written } from "./chapters.mjs";
import { run } from "./program.mjs";

test("each chapter has one picture, a question before its answer, something to change, and questions at its end", () => {
  assert.equal(titles.length, 14);
  for (const chapter of written) {
    assert.equal([...chapter.matchAll(/^!\[.+\]\(\w+\.svg\)$/gm)].length, 1);
    const places = [...chapter.matchAll(/^\*\*(Predict|Change it|Check)\.\*\*/gm)].map(([, name]) => name);
    assert.match(places.join(" "), /^Predict Change it( Check)+$/, chapter.split("\n")[0]);
    assert.equal(questions_of(chapter).length, places.length - 1, chapter.split("\n")[0]);
    assert.equal([...chapter.matchAll(/^<!-- page: /gm)].length, 1);
  }
});

// Each is emphasised where it is said first.
test("terms are said before they are used", () => {
  const text = written.join("\n").replace(/^```.*?^```$|^<!--.*?$|^!\[.*?$|`[^`\n]*`/gms, "");
  for (const term of ["token", "layer", "feed-forward", "logit", "embedding", "log-probability", "loss", "gradient"]) {
    const [, before] = new RegExp(`(.?)\\b${term}`, "i").exec(text);
    assert.equal(before, "*", term);
  }
});

// What commands print is compared by scripts/check, what pictures show by web/lesson/draw.mjs --check.
test("each decimal of the text is in a picture or in what a command prints, of this chapter", () => {
  for (const chapter of written) {
    const printed = [...chapter.matchAll(/^```console$.*?^```$/gms)].map(([block]) => block).join("\n");
    const drawn = readFileSync(new URL(/\]\((\w+\.svg)\)$/m.exec(chapter)[1], folder), "utf8");
    const text = chapter.replace(/^\*\*Check\.\*\*.*?^<\/details>$|(^- [^\n]*\n)+\n<!-- choose|^```.*?^```$|^<!--.*?$|`[^`\n]*`/gms, "");
    for (const [number] of text.matchAll(/\d+\.\d+/g)) {
      if (kDerived.has(number)) continue;
      assert.ok((printed + drawn).includes(number), `${number} in ${chapter.split("\n")[0]}`);
    }
  }
});
// exp(2); 1.262 / 0.353; 1 / 64; 0.06 - 1
const kDerived = new Set(["7.38906", "3.6", "0.02", "0.94"]);

test("all chapters by scrolling, and one at a time", async () => {
  const { page, close } = await open(report_of(data_of("steps")), { hash: "#view=lesson" });
  const shown = () => page.locator(".chapter h2").allInnerTexts();
  assert.deepEqual(
    (await shown()).slice(1),
    [...titles.map((title, i) => `${i + 1} ${title}`), "Summary"],
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
  assert.equal((await shown()).length, titles.length + 2);
  await close();
});

test("the summary has the glossary", async () => {
  const { page, close } = await open(report_of(data_of("steps")), { hash: `#view=lesson&chapter=${titles.length + 1}` });
  const words = [...readFileSync(new URL("../glossary.md", folder), "utf8").matchAll(/^\| ([^|]+) \|/gm)].map(([, word]) => word);
  assert.deepEqual(await page.locator(".chapter tr > :first-child").allInnerTexts(), words.filter((word) => word !== "---"));
  await close();
});

test("the answer is asked for", async () => {
  const { page, close } = await open(report_of(data_of("steps")), { hash: "#view=lesson&chapter=4" });
  const answer = page.getByText("softmax looks at differences");
  assert.equal(await answer.isVisible(), false);
  await page.getByText("Answer", { exact: true }).first().press("Enter");
  assert.equal(await answer.isVisible(), true);
  await close();
});

test("answers are checked, and counted for the chapter", async () => {
  const { page, close } = await open(report_of(data_of("steps")), { hash: "#view=lesson&chapter=4" });
  const said = (n) => page.locator(".ask [role=status]").nth(n).innerText();
  const score = () => page.locator(".score").innerText();
  const [choices, number] = [page.locator(".ask").nth(0), page.locator(".ask").nth(1)];
  assert.equal(await score(), "0 of 2 answered right.");
  await choices.getByLabel("twice", { exact: true }).check();
  await choices.getByRole("button", { name: "Check" }).click();
  assert.match(await said(0), /^Not yet/);
  await choices.getByLabel("more than twice").check();
  await choices.getByRole("button", { name: "Check" }).press("Enter");
  assert.equal(await said(0), "Right.");
  assert.equal(await score(), "1 of 2 answered right.");
  for (const [text, answer] of [["0.05", /^Not yet/], ["many", /^Not yet/], ["0,06", /^Right/], ["0.063", /^Right/]]) {
    await number.getByRole("textbox").fill(text);
    await number.getByRole("textbox").press("Enter");
    assert.match(await said(1), answer, text);
  }
  assert.equal(await score(), "2 of 2 answered right.");
  await page.getByRole("link", { name: "Summary" }).click();
  await page.getByRole("link", { name: titles[3] }).click();
  assert.equal(await score(), "2 of 2 answered right.");
  await close();
});

test("a chapter leads to the steps, in the state it speaks of", async () => {
  const live = new_file();
  run("web", "--out", live);
  for (const [chapter, place] of written.entries()) {
    const address = /^<!-- page: (\S+) -->$/m.exec(place)[1];
    const { page, close } = await open_file(live, { hash: `#view=lesson&chapter=${chapter + 1}` });
    await page.getByRole("link", { name: "Open it in the steps" }).click();
    const asked = new URLSearchParams(address);
    await page.locator(`.panel[data-cell="${asked.get("cell")}"]`).waitFor();
    // What the state changes can be taken back, once it is computed.
    if (asked.has("made")) await page.getByRole("button", { name: "Reset" }).click();
    assert.equal(await page.locator(".fault").count(), 0, address);
    await close();
  }
});

test("a report without steps has the lesson without those links", async () => {
  const { page, close } = await open(report_of(data_of("translation")), { hash: "#view=lesson" });
  assert.equal(await page.locator(".chapter").count(), titles.length + 2);
  assert.equal(await page.getByRole("link", { name: "Open it in the steps" }).count(), 0);
  await close();
});
