// Pages that compute, what they show, and what is typed into them.
import assert from "node:assert/strict";
import { new_file, open_file } from "./browser.mjs";
import { model, run } from "./program.mjs";

const pages = {};
export function page_of(name, options) {
  if (!pages[name]) {
    pages[name] = new_file();
    run("web", "--out", pages[name], ...options);
  }
  return pages[name];
}
export const open_example = (options = {}) => open_file(page_of("example", []), options);
export const open_model = (options = {}) => open_file(page_of("model", ["--model", model]), options);

// The numbers of a matrix that the page shows.
export const numbers_of = (page, name) =>
  page.evaluate(
    (asked) => [...document.querySelectorAll(`td[data-id^="${asked}:"]`)].map((cell) => cell.textContent.trim()),
    name,
  );
export const tensor_of = (explanation, name) =>
  explanation.sections
    .flatMap(({ blocks }) => blocks.flatMap(({ tensors }) => tensors))
    .find((tensor) => tensor.name === name).values;
export const shown = (values) => values.flat().map((value) => String(Number(value.toFixed(3))));
export const as_shown = (texts) => texts.map((text) => String(Number(text)));

// Types into the field of a label; the page has answered when `until` holds.
export async function fill(page, label, text) {
  const field = page.locator(".live label", { hasText: label }).locator("input");
  await field.fill(text);
  await field.press("Enter");
  await field.blur();
}

// Asks again until it holds: the policy of the page forbids what waits for a function in it.
export async function until(page, holds, argument) {
  for (let i = 0; i < 1200; ++i) {
    if (await page.evaluate(holds, argument)) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.fail(`never: ${holds} ${JSON.stringify(argument)}`);
}
// As the reader sees it: what scripts hold counts for nothing.
export const settled = (page, text) => until(page, (asked) => document.body.innerText.includes(asked), text);
