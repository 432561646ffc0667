// Numbers are changed in their cells and by sliders: the result is the program's, and the address carries it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { data_of, hash_of, open, report_of } from "./browser.mjs";
import { as_shown, fill, numbers_of, open_example, settled, shown, tensor_of, until } from "./live.mjs";
import { native } from "./program.mjs";

const cell = (page, id) => page.locator(`td[data-id="${id}"]`);
const field = (page) => page.locator(".cell input");
const command_has = (page, text) => until(page, (asked) => document.querySelector("footer code").textContent.includes(asked), text);

test("a click chooses a number, a second one changes it in its cell", async () => {
  const { page, close } = await open_example({ hash: "#step=2" });
  await cell(page, "w_key:1.1").click();
  assert.equal(await field(page).count(), 0);
  await cell(page, "w_key:1.1").click();
  assert.equal(await field(page).getAttribute("aria-label"), "w_key 2, 2");
  await page.keyboard.type("-2,5"); // what is there is selected, and goes
  await page.keyboard.press("Enter");
  await command_has(page, "[1,-2.5,0]");
  assert.equal(await page.evaluate(() => document.activeElement.dataset.id), "w_key:1.1");
  assert.match(decodeURIComponent(await hash_of(page)), /\[1,-2\.5,0\]/);
  await page.reload();
  await until(page, () => document.querySelector('td[data-id="w_key:1.1"]')?.textContent.trim() === "-2.500");
  await close();
});

test("typing begins a change, Escape and what is no number leave it", async () => {
  const { page, close } = await open_example({ hash: "#step=3&cell=query:0.1" });
  const start = await hash_of(page);
  await cell(page, "query:0.1").focus();
  await page.keyboard.press("7");
  assert.equal(await field(page).inputValue(), "7");
  await page.keyboard.press("ArrowLeft"); // within the field
  await page.keyboard.press("Escape");
  assert.equal(await field(page).count(), 0);
  assert.equal(await hash_of(page), start);
  await page.keyboard.press("F2");
  await page.keyboard.type("much");
  await page.keyboard.press("Enter");
  assert.equal(await field(page).getAttribute("aria-invalid"), "true");
  assert.equal(await page.locator(".live [role=alert]").innerText(), '"much" is not a number: the last result stays.');
  await field(page).fill("0.5");
  await page.keyboard.press("Tab");
  await command_has(page, "--substitute");
  const query = tensor_of(native("explain"), "query");
  query[0][1] = 0.5;
  const expected = native("explain", "--substitute", `query=${JSON.stringify(query)}`);
  await page.getByRole("tab", { name: /Repeat/ }).click();
  assert.deepEqual(as_shown(await numbers_of(page, "output")), shown(tensor_of(expected, "output")));
  await close();
});

test("what nothing can be put into, and a report without an engine, are read only", async () => {
  const live = await open_example({ hash: "#step=8&cell=output:0.0" });
  await cell(live.page, "output:0.0").focus();
  await live.page.keyboard.press("Enter");
  assert.equal(await field(live.page).count(), 0);
  assert.equal(await live.page.locator(".step [aria-label='output, 3 x 3']").getAttribute("aria-readonly"), "true");
  await live.close();
  const report = await open(report_of(data_of("steps")), { hash: "#step=2&cell=w_query:0.0" });
  for (let i = 0; i < 2; ++i) await cell(report.page, "w_query:0.0").click();
  assert.equal(await field(report.page).count(), 0);
  await report.close();
});

test("sliders of a number, the scale and the window: the result follows while they move, the address when they stop", async () => {
  const { page, close } = await open_example({ hash: "#step=8&cell=value:0.0" });
  const slide = (name, value, event) =>
    page.getByLabel(name, { exact: true }).evaluate((one, [to, type]) => {
      one.value = to;
      one.dispatchEvent(new Event(type, { bubbles: true }));
    }, [value, event]);
  await slide("Slide value 1, 1", "2.5", "input");
  await command_has(page, "value=[[2.5,");
  assert.doesNotMatch(await hash_of(page), /made/);
  await slide("Slide value 1, 1", "2.5", "change");
  assert.match(decodeURIComponent(await hash_of(page)), /"value":\[\[2\.5,/);
  await slide("Slide the scale", "-1", "change");
  await command_has(page, "--scale 0.5");
  await settled(page, "temperature 2");
  await slide("Window", "1", "change");
  await command_has(page, "--window 1,1");
  await settled(page, "1 to each side");
  const value = tensor_of(native("explain"), "value");
  value[0][0] = 2.5;
  const expected = native("explain", "--scale", "0.5", "--window", "1,1", "--substitute", `value=${JSON.stringify(value)}`);
  assert.deepEqual(as_shown(await numbers_of(page, "output")), shown(tensor_of(expected, "output")));
  await page.getByLabel("Window", { exact: true }).press("End");
  await until(page, () => !document.querySelector("footer code").textContent.includes("--window"));
  await close();
});

test("an engine that takes long is said to work", async () => {
  const { page, close } = await open_example({ hash: "#step=2&cell=w_query:0.0" });
  await page.evaluate(() => (Worker.prototype.postMessage = () => {})); // never answers
  await fill(page, "Number: w_query 1, 1", "3.5");
  await settled(page, "Computing...");
  await close();
});
