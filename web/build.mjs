// Makes dist/page.html of src/: one file without a request, its script and style allowed by their hashes alone.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { chapters } from "./lesson/chapters.mjs";
import { packed } from "./packed.mjs";

const kMost = 250_000; // bytes, of which the lesson has some 45,000

async function bundled(file, options = {}) {
  const result = await build({
    entryPoints: [file],
    bundle: true,
    minify: true,
    write: false,
    charset: "ascii",
    legalComments: "none",
    target: "es2022",
    logLevel: "error",
    ...options,
  });
  return result.outputFiles[0].text.trim();
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const worker = await bundled("src/live/worker.ts", { format: "iife" });
const define = { WORKER: JSON.stringify(packed(worker)), LESSON: JSON.stringify(packed(JSON.stringify(chapters()))) };
const script = (await bundled("src/main.ts", { format: "iife", define }))
  .replaceAll("</script", "<\\/script")
  .replace(/\n {2,}/g, " "); // lines of templates, indented in the sources
const style = await bundled("src/page.css", { target: "esnext" });
const policy = [
  "default-src 'none'",
  `script-src ${hash(script)} 'wasm-unsafe-eval'`,
  "worker-src blob:",
  `style-src ${hash(style)}`,
  "img-src data: blob:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

const parts = { policy, style, script };
const page = readFileSync("src/page.html", "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
if (Buffer.byteLength(page) > kMost)
  throw new Error(`the page has ${Buffer.byteLength(page)} bytes, more than ${kMost}`);
for (const mark of ["<!--qkv:title-->", "<!--qkv:report-->", "<!--qkv:data-->", "<!--qkv:engine-->"]) {
  if (page.split(mark).length !== 2) throw new Error(`the page must have ${mark} once`);
}

if (process.argv.includes("--check")) {
  if (readFileSync("dist/page.html", "utf8") !== page) {
    console.error("web/dist/page.html is not what web/src makes: run web/build and commit it");
    process.exit(1);
  }
} else {
  mkdirSync("dist", { recursive: true });
  writeFileSync("dist/page.html", page);
  console.log(`web/dist/page.html: ${Buffer.byteLength(page)} bytes`);
}
