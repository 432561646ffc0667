// node web/screenshots.mjs: the pictures of docs/report.md, of pages that the built program writes.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { model, root, run } from "./tests/program.mjs";

const folder = mkdtempSync(join(tmpdir(), "qkv-pictures-"));

const click = (name) => (page) => page.getByRole("button", { name }).click();
const learn = async (page) => {
  await click("Learn")(page);
  await page.getByText(/Update ([4-9]\d|1\d\d):/).waitFor();
  await click("Stop")(page);
  await page.getByRole("button", { name: "Go on" }).waitFor();
};

const kPictures = [
  ["start", "model", ""],
  ["start_390", "model", "", null, 390],
  ["steps", "example", "#step=8&cell=output:0.1"],
  ["steps_390", "example", "#step=5&cell=weights:0.1", null, 390],
  ["softmax", "example", "#step=5&cell=weights:0.1"],
  ["model", "model", "#of=1&view=model"],
  ["training", "example", "#view=training", learn],
  ["translation", "model", "#of=1&token=1"],
  ["heads", "model", "#of=1&view=heads&attention=encoder_decoder&head=1.0&token=1&words=1"],
  ["maps", "maps", "#token=150"],
];

try {
  const pages = Object.fromEntries(["example", "model", "maps"].map((name) => [name, join(folder, `${name}.html`)]));
  run("web", "--out", pages.example);
  run("web", "--out", pages.model, "--model", model);
  const rows = Array.from({ length: 240 }, (_, i) =>
    Array.from({ length: 16 }, (_x, d) => (3 * Math.sin((i * (d + 1)) / 15 + d)).toFixed(3)).join(","),
  );
  const array = join(folder, "array.csv");
  writeFileSync(array, `${rows.join("\n")}\n`);
  const inputs = ["--query", array, "--key", array, "--value", array, "--causal", "top-left", "--keep", "0.0"];
  run("attend", ...inputs, "--out", join(folder, "out.npy"), "--html", pages.maps);
  const executablePath = "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  for (const [name, page_name, hash, act, width = 1280] of kPictures) {
    const page = await browser.newPage({ viewport: { width, height: 800 }, reducedMotion: "reduce" });
    await page.goto(`file://${pages[page_name]}${hash}`);
    if (act) await act(page);
    await page.evaluate(() => scrollTo(0, 0));
    await page.screenshot({ path: `${root}docs/report/${name}.png` });
    await page.close();
  }
  await browser.close();
} finally {
  rmSync(folder, { recursive: true });
}
