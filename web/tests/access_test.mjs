// Every view for everybody: axe-core finds nothing, the keyboard reaches everything, 360 pixels are wide enough.
import assert from "node:assert/strict";
import { test } from "node:test";
import { faults_of } from "./axe.mjs";
import { data_of, focused, hash_of, open, report_of, tab_to } from "./browser.mjs";
import { native, writing } from "./program.mjs";

// An encoder alone: the first attention of a translation, under its own name.
function encoder() {
  const data = data_of("translation");
  const sequence = { ...data.sequences[0], name: "tokens" };
  const attention = { ...data.attentions[0], name: "attention", title: "", queries: "tokens", keys: "tokens" };
  return { ...data, sequences: [sequence], attentions: [attention], sublayers: [], translation: null };
}

const kViews = [
  ["steps", "#step=1"],
  ["steps", "#step=3&cell=key:1.2"],
  ["steps", "#step=8"],
  ["steps", "#step=4&beat=3"],
  ["two_heads", "#step=7&beat=99"],
  ["causal", "#step=5&query=1"],
  ["two_heads", "#step=2"],
  ["two_heads", "#step=6"],
  ["wide", "#step=3"],
  ["translation", "#view=translation&token=2"],
  ["translation", "#view=heads&token=2&key=1"],
  ["translation", "#view=heads&show=lines&words=1&token=1"],
  ["translation", "#view=heads&show=row&token=1&sort=entropy"],
  ["translation", "#view=heads&attention=encoder&token=5&also=6"],
  ["translation", "#view=model&cell=encoder.layers.0.output"],
  ["writing", "#view=translation&token=3"],
  ["writing", "#view=heads&head=1.1&sort=induction"],
  ["no_weights", "#view=heads"],
  ["head", ""],
  ["token", ""],
  ["picture", "#key=1"],
  ["maps", "#head=0.1&token=7&at=3,0.3,0.2"],
  ["steps", "#view=lesson"],
  ["translation", "#view=lesson&chapter=4"],
  ["all", "#of=0&view=heads"],
];
const report_for = (name) =>
  name === "writing"
    ? report_of(native(...writing))
    : name === "all"
    ? report_of(...["translation", "steps"].map(data_of))
    : report_of(name === "encoder" ? encoder() : data_of(name));

// What is shown: no number of a table, no decimal, no share in a sentence; the names of heads, of the form 1.2, stay.
async function check_numbers_hide(page, name) {
  const shown = () =>
    page.evaluate(() => {
      const texts = [];
      const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) {
        const text = walker.currentNode.textContent.trim();
        const holder = walker.currentNode.parentElement;
        if (holder.closest(".fact")) continue; // what was asked for
        const of_table = holder.closest("td") !== null && /\d/.test(text);
        if (!of_table && !/\d\.\d\d|\d %/.test(text)) continue;
        if (holder.checkVisibility({ visibilityProperty: true })) texts.push(text);
      }
      return texts;
    });
  if (name === "maps") await page.locator(".measures td").first().waitFor();
  assert.notEqual((await shown()).length + ["translation", "encoder"].includes(name), 0);
  await page.getByLabel("Numbers").uncheck();
  assert.match(await hash_of(page), /numbers=0/);
  assert.deepEqual(await shown(), []);
}

for (const [name, hash] of [...kViews, ["encoder", "#view=heads"]]) {
  test(`${name} ${hash}: accessible in light, dark and forced colours, at 360 and 320 pixels; its numbers hide`, async () => {
    const { page, close } = await open(report_for(name), { hash });
    assert.equal(await page.locator(".faults").count(), 0);
    assert.doesNotMatch(await page.locator("main").innerText(), /\[object|undefined/);
    assert.deepEqual(await faults_of(page), []);
    for (const width of [360, 320]) {
      await page.setViewportSize({ width, height: 800 });
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(beyond <= 0, `${beyond} pixels too wide at ${width}`);
    }
    await page.emulateMedia({ forcedColors: "active" });
    assert.equal(await page.locator("main").count(), 1);
    if (!hash.includes("lesson")) await check_numbers_hide(page, name);
    await close();
  });
}

test("numbers hide in what is chosen, too", async () => {
  for (const [name, hash] of [
    ["picture", "#key=1&head=0.1"],
    ["translation", "#view=translation&show=row&token=2"],
    ["translation", "#view=heads&sort=previous"],
    ["maps", "#head=0.1&token=7"],
  ]) {
    const { page, close } = await open(report_for(name), { hash });
    await check_numbers_hide(page, name);
    await close();
  }
});

test("a touch chooses a number, a head, a cell of its map", async () => {
  const touch = { hasTouch: true, isMobile: true, width: 360 };
  const first = await open(report_of(data_of("steps")), { hash: "#step=3", ...touch });
  await first.page.locator('td[data-id="key:1.2"]').tap();
  assert.match(await hash_of(first.page), /cell=key:1\.2/);
  assert.equal(await first.page.locator(".panel[data-cell='key:1.2']").count(), 1);
  await first.close();
  const second = await open(report_of(data_of("translation")), { hash: "#view=heads&attention=encoder", ...touch });
  await second.page.locator(".tile").nth(5).tap();
  assert.match(await hash_of(second.page), /head=1\.1/);
  await second.page.locator(".large .target").first().tap({ position: { x: 3, y: 3 } });
  assert.match(await hash_of(second.page), /token=0&key=0/);
  await second.close();
});

test("nothing moves where motion is to be reduced", async () => {
  for (const [reducedMotion, moves] of [["reduce", false], ["no-preference", true]]) {
    const { page, close } = await open(report_of(data_of("steps")), { hash: "#step=3", reducedMotion });
    const longest = await page.evaluate(() =>
      Math.max(
        ...[...document.querySelectorAll("*")].map((one) => {
          const { transitionDuration, animationDuration } = getComputedStyle(one);
          return Math.max(...`${transitionDuration},${animationDuration}`.split(",").map(Number.parseFloat));
        }),
      ),
    );
    assert.equal(longest > 0, moves);
    await close();
  }
});

test("by keyboard alone: steps, a number, the next step, a query", async () => {
  const { page, close } = await open(report_of(data_of("steps")));
  await page.keyboard.press("Tab");
  assert.match(await focused(page), /To the content/);
  await tab_to(page, /^button tab/);
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  assert.equal(await hash_of(page), "#step=3");
  await tab_to(page, /^select/);
  await page.keyboard.press("ArrowDown");
  assert.match(await hash_of(page), /query=1/);
  await page.locator("[aria-label='query, 3 x 3'] td[tabindex='0']").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("End");
  assert.match(await hash_of(page), /cell=query:1\.2/);
  assert.equal(await page.locator(".panel .value").innerText(), "2");
  await page.keyboard.press("PageDown");
  assert.match(await hash_of(page), /step=4/);
  assert.match(await focused(page), /^td/);
  await close();
});

test("by keyboard alone: every matrix is reached", async () => {
  const { page, close } = await open(report_of(data_of("steps")), { hash: "#step=3" });
  const reached = new Set();
  for (let i = 0; i < 40; ++i) {
    await page.keyboard.press("Tab");
    reached.add(
      await page.evaluate(() => document.activeElement.closest("table[role=grid]")?.getAttribute("aria-label") ?? ""),
    );
  }
  for (const name of [
    "inputs, 3 x 4",
    "w_query, 4 x 3",
    "w_key, 4 x 3",
    "w_value, 4 x 3",
    "query, 3 x 3",
    "key, 3 x 3",
    "value, 3 x 3",
  ])
    assert.ok(reached.has(name), name);
  await close();
});

test("by keyboard alone: a head, a cell of its map, lines", async () => {
  const { page, close } = await open(report_of(data_of("translation")), { hash: "#view=heads" });
  await tab_to(page, /^button {2}1\.2/);
  await page.keyboard.press("Enter");
  assert.match(await hash_of(page), /head=1\.2/);
  await tab_to(page, /^button {2}Lines/);
  await page.keyboard.press("Space");
  assert.match(await hash_of(page), /show=lines/);
  await tab_to(page, /^div application/);
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
  assert.match(await hash_of(page), /token=1&key=1/);
  await close();
});

test("by keyboard alone: what was written, a patch of a picture, a number of a head", async () => {
  const first = await open(report_of(data_of("translation")));
  await tab_to(first.page, /^input/); // the box of numbers
  await tab_to(first.page, /^input {2}Token that is being written/);
  await first.page.keyboard.press("ArrowRight");
  assert.match(await hash_of(first.page), /token=1/);
  await first.close();
  const second = await open(report_of(data_of("picture")));
  await tab_to(second.page, /^div application/);
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await second.page.keyboard.press(key);
  assert.match(await hash_of(second.page), /key=3/);
  await second.close();
  const third = await open(report_of(data_of("head")));
  await tab_to(third.page, /^div application key/);
  for (const key of ["ArrowDown", "ArrowRight"]) await third.page.keyboard.press(key);
  assert.match(await hash_of(third.page), /cell=key:1\.1/);
  await third.close();
});

test("a printed page has all eight steps, no tools, and dark letters on white", async () => {
  const { page, close } = await open(report_of(data_of("steps")), { scheme: "dark" });
  await page.emulateMedia({ media: "print" });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  assert.equal(await page.locator("article.step").count(), 8);
  assert.equal(await page.locator(".tools").isVisible(), false);
  assert.equal(await page.locator("h1").evaluate((title) => getComputedStyle(title).color), "rgb(23, 28, 40)");
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  assert.equal(await page.locator("article.step").count(), 1);
  await close();
});

test("without scripts the tables can be read", async () => {
  const { page, close } = await open(report_of(data_of("steps")), {
    javaScriptEnabled: false,
    tables: "<table><caption>output</caption><tr><td>1.93662</td></tr></table>",
  });
  assert.equal(await page.getByText("1.93662").isVisible(), true);
  await close();
});
