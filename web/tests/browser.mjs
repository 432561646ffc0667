// Reports as the program writes them, opened in chromium from file://. A page that asks for anything or prints anything
// on the console fails its test.
import { chromium } from "playwright-core";
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { pathToFileURL } from "node:url";

const here = new URL(".", import.meta.url);
const page_text = readFileSync(new URL("../dist/page.html", here), "utf8");
const folder = mkdtempSync(join(tmpdir(), "qkv-page-"));
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);

export const data_of = (name) => JSON.parse(readFileSync(new URL(`data/${name}.json`, here), "utf8"));

export const report_of = (...explanations) => ({
  schema: "qkv/report/1",
  title: explanations[0]?.title ?? "A report",
  command: "qkv explain --html report.html",
  left_out: [],
  explanations,
});

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

// As include/qkv/explain/report.h fills the marks of the page.
function filled(data, title, tables) {
  const parts = {
    "<!--qkv:title-->": escaped(title),
    "<!--qkv:report-->": tables,
    "<!--qkv:data-->": data.replaceAll("<", "\\u003c"),
    "<!--qkv:engine-->": "",
  };
  return page_text.replace(/<!--qkv:\w+-->/g, (mark) => parts[mark]);
}

const kBlank = "about:blank";
const kPatience = 180_000; // milliseconds, on a machine that is busy with other things
let browser;
after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

let count = 0;

// Opens a report: an object, or the text of its data.
export function open(report, { tables = "<table><tr><td>1</td></tr></table>", ...options } = {}) {
  const file = new_file();
  const data = typeof report === "string" ? report : JSON.stringify(report);
  writeFileSync(file, filled(data, report.title ?? "A report", tables));
  return open_file(file, options);
}

export const new_file = () => join(folder, `${++count}.html`);

// Pages that no test has open, by what their contexts are: a new one takes a new process.
const free = new Map();

async function new_page({ without, ...options }) {
  browser ??= await chromium.launch({
    executablePath,
    timeout: kPatience,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
  });
  const context = await browser.newContext(options);
  context.setDefaultTimeout(kPatience);
  if (without !== "") await context.addInitScript((name) => delete globalThis[name], without);
  const page = await context.newPage();
  const made = { page, href: "", complaints: [], spent: false };
  page.on("console", (message) => made.complaints.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => made.complaints.push(`error: ${error.message}`));
  page.on("request", (request) => {
    if (!/^(data|blob):/.test(request.url()) && ![made.href, kBlank].includes(request.url().split("#")[0]))
      made.complaints.push(`request: ${request.url()}`);
  });
  page.on("dialog", (dialog) => {
    made.complaints.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("download", () => (made.spent = true)); // chromium holds further ones back
  return made;
}

export async function open_file(
  file,
  { hash = "", scheme = "light", width = 1280, height = 800, without = "", reducedMotion = "reduce", ...options } = {},
) {
  const asked = { without, ...options };
  const key = JSON.stringify(asked);
  if (!free.has(key)) free.set(key, []);
  const made = free.get(key).pop() ?? (await new_page(asked));
  const { page } = made;
  made.href = pathToFileURL(file).href;
  made.complaints = [];
  await page.emulateMedia({ media: null, colorScheme: scheme, reducedMotion, forcedColors: "none" });
  await page.setViewportSize({ width, height });
  await page.goto(made.href + hash);
  return {
    page,
    async close() {
      if (made.spent) await page.context().close();
      else {
        await page.goto(kBlank);
        free.get(key).push(made);
      }
      assert.deepEqual(made.complaints, []);
    },
  };
}

// As the page has it: what the browser tells from outside comes later.
export const hash_of = (page) => page.evaluate(() => location.hash);

// Changes parts of the address and keeps the others.
export const go_to = (page, parts) =>
  page.evaluate((given) => {
    const address = new URLSearchParams(location.hash.slice(1));
    for (const [name, value] of Object.entries(given)) address.set(name, value);
    location.hash = address;
  }, parts);

// What has the focus: its element, role and name.
export const focused = (page) =>
  page.evaluate(() => {
    const one = document.activeElement;
    const name = one.getAttribute("aria-label") ?? one.textContent.trim().slice(0, 30);
    return `${one.tagName.toLowerCase()} ${one.getAttribute("role") ?? ""} ${name}`;
  });

// Presses Tab until what has the focus matches.
export async function tab_to(page, wanted) {
  for (let i = 0; i < 120; ++i) {
    await page.keyboard.press("Tab");
    if (wanted.test(await focused(page))) return;
  }
  assert.fail(`Tab never reaches ${wanted}`);
}
