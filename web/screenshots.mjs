// node web/screenshots.mjs: the pictures of docs/report.md, of pages that the built program writes.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { chromium } from "playwright-core";
import { small_png } from "./small_png.mjs";
import { root, run } from "./tests/program.mjs";

process.chdir(root); // pages show the commands that made them
const folder = "build/pictures";
mkdirSync(folder, { recursive: true });

const click = (name) => (page) => page.getByRole("button", { name }).click();
const learn = async (page) => {
  await click("Learn")(page);
  await page.getByText(/Update ([4-9]\d|1\d\d):/).waitFor();
  await click("Stop")(page);
  await page.getByRole("button", { name: "Go on" }).waitFor();
};

const type = async (page) => {
  await page.locator('td[data-id="w_query:1.1"]').click(); // it is chosen already
  await page.keyboard.type("2.5");
};

// Each at both widths; on a telephone, and of remarks, from the part of the page that it is about.
const kPictures = [
  ["start", "model", "", "header"],
  ["steps", "example", "#step=8&cell=output:0.1", ".step"],
  ["motion", "example", "#step=4&query=2&beat=8", ".motion"],
  ["changed", "example", "#step=2&cell=w_query:1.1", ".step", type],
  ["softmax", "example", "#step=5&cell=weights:0.1", ".step"],
  ["whom", "example", "#step=8", ".remark"],
  ["model", "model", "#of=1&view=model", ".model-view"],
  ["training", "example", "#view=training", ".card", learn],
  ["translation", "model", "#of=1&token=1", ".card"],
  ["heads", "model", "#of=1&view=heads&attention=encoder_decoder&head=1.0&token=1&words=1", ".split"],
  ["lines", "model", "#of=1&view=heads&attention=encoder&head=2.1&show=lines&lines=2.0,2.2&token=2", ".one-head"],
  ["runs", "runs", "#step=5&run=difference", ".step"],
  ["writing", "writing", "#token=9", ".card"],
  ["maps", "maps", "#token=150", ".maps"],
  ["picture", "picture", "", ".card"],
];
const kSizes = [
  ["", 1280, 800],
  ["_390", 390, 720],
];

// A screenshot, decoded by the browser.
async function saved(page, name) {
  const png = (await page.screenshot()).toString("base64");
  const { width, height, bytes } = await page.evaluate(async (given) => {
    const image = await createImageBitmap(new Blob([Uint8Array.from(atob(given), (one) => one.charCodeAt(0))]));
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    const bytes = await new Promise((done) => {
      const reader = new FileReader();
      reader.onload = () => done(reader.result.split(",")[1]);
      reader.readAsDataURL(new Blob([data]));
    });
    return { width: image.width, height: image.height, bytes };
  }, png);
  const all = Buffer.from(bytes, "base64");
  const pixels = Array.from({ length: width * height }, (_, i) => all.readUInt32BE(4 * i) >>> 8);
  writeFileSync(`docs/report/${name}.png`, small_png(width, height, pixels));
}

try {
  const pages = Object.fromEntries(["example", "model", "runs", "writing", "maps", "picture"].map((name) => [name, `${folder}/${name}.html`]));
  run("web", "--out", pages.example);
  run("web", "--out", pages.model, "--model", "models/en-es");
  run("explain", "--model", "models/digits", "--image", "data/example/seven.png", "--html", pages.picture);
  run("generate", "--model", "models/verses", "--explain", "--max-new-tokens", "16", "--html", pages.writing, "In the beginning");
  const one_run = `${folder}/run.json`;
  writeFileSync(one_run, run("explain", "--json"));
  run("explain", "--scale", "0.5", "--compare", one_run, "--html", pages.runs);
  const rows = Array.from({ length: 240 }, (_, i) =>
    Array.from({ length: 16 }, (_x, d) => (3 * Math.sin((i * (d + 1)) / 15 + d)).toFixed(3)).join(","),
  );
  const array = `${folder}/array.csv`;
  writeFileSync(array, `${rows.join("\n")}\n`);
  const inputs = ["--query", array, "--key", array, "--value", array, "--causal", "top-left", "--keep", "0.0"];
  run("attend", ...inputs, "--out", `${folder}/out.npy`, "--html", pages.maps);
  const executablePath = "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  for (const [name, page_name, hash, part, act] of kPictures) {
    for (const [suffix, width, height] of kSizes) {
      const page = await browser.newPage({ viewport: { width, height }, reducedMotion: "reduce" });
      await page.goto(`file://${root}${pages[page_name]}${hash}`);
      if (act) await act(page);
      await page.evaluate(([one, narrow]) => {
        scrollTo(0, 0);
        if (narrow || one === ".remark") document.querySelector(one).scrollIntoView();
      }, [part, width < 500]);
      await saved(page, name + suffix);
      await page.close();
    }
  }
  await browser.close();
} finally {
  rmSync(folder, { recursive: true });
}
