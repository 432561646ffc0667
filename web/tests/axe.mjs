// What axe-core finds wrong with a page, by WCAG 2.2 AA and its own best practice.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const kOfColors = { type: "rule", values: ["color-contrast", "link-in-text-block"] };
const kAll = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

async function run(page, runOnly) {
  const options = { runOnly, resultTypes: ["violations"] };
  const { violations } = await page.evaluate((asked) => globalThis.axe.run(document, asked), options);
  const told = (node) => `${node.target.join(" ")} ${node.any.map((any) => any.message).join("; ")}`;
  return violations.map((one) => `${one.id}: ${one.nodes.map(told).join(" | ")}`);
}

// In light, and in dark what is about colours: nothing else of the page differs.
export async function faults_of(page) {
  // Scripts of the test are none of the page: its policy does not hold for them.
  await page.evaluate(axe);
  const light = await run(page, kAll);
  await page.emulateMedia({ colorScheme: "dark" });
  return [...light, ...(await run(page, kOfColors))];
}
