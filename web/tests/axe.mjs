// What axe-core finds wrong with a page, by WCAG 2.2 AA and its own best practice.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export async function faults_of(page) {
  // Scripts of the test are none of the page: its policy does not hold for them.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() =>
    globalThis.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    }),
  );
  const told = (node) => `${node.target.join(" ")} ${node.any.map((any) => any.message).join("; ")}`;
  return violations.map((one) => `${one.id}: ${one.nodes.map(told).join(" | ")}`);
}
