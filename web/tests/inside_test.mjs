// A page inside of another, as a notebook shows it: it begins where the report says, and its links stay in it.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { data_of, new_file, open, open_file, report_of } from "./browser.mjs";

const start = "view=heads&head=0.1&show=lines&scheme=dark";

test("in the page of a notebook links are followed, and nothing is asked for", async () => {
  const inner = await open({ ...report_of(data_of("translation")), start });
  const path = new URL(inner.page.url()).pathname;
  await inner.close();
  const file = new_file();
  const srcdoc = readFileSync(path, "utf8").replaceAll("&", "&amp;").replaceAll('"', "&quot;");
  writeFileSync(file, `<!doctype html><html lang="en"><title>A notebook</title><iframe title="page" srcdoc="${srcdoc}"></iframe></html>`);
  const { page, close } = await open_file(file);
  const frame = page.frames()[1];
  const current = () => frame.locator("nav a[aria-current=page]").last().innerText();
  assert.equal(await current(), "Heads");
  assert.match(await frame.locator("main h2").nth(1).innerText(), /layer 0, head 1/);
  await frame.locator("nav a", { hasText: "Model" }).click();
  assert.equal(await current(), "Model");
  await frame.locator("nav a", { hasText: "Heads" }).click();
  await frame.locator(".tile").nth(2).click();
  assert.match(await frame.locator("main h2").nth(1).innerText(), /head 2/);
  assert.equal(page.frames().length, 2);
  await close();
});

test("the colours are those that the report asks for", async () => {
  const { page, close } = await open({ ...report_of(data_of("translation")), start }, { scheme: "light" });
  assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), "dark");
  await close();
});
