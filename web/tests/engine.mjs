// The engine outside of a page: the committed module, or the one that QKV_ENGINE names, run by node over the page's own files in memory.
import { build } from "esbuild";
import { readFileSync } from "node:fs";
import { decompress } from "fzstd";

const here = new URL(".", import.meta.url);

const bundle = await build({
  entryPoints: [new URL("../src/live/engine.ts", here).pathname],
  bundle: true,
  write: false,
  format: "esm",
  target: "es2022",
});
const { Engine } = await import(`data:text/javascript;base64,${Buffer.from(bundle.outputFiles[0].contents).toString("base64")}`);
const compiled = await WebAssembly.compile(decompress(readFileSync(process.env.QKV_ENGINE ?? new URL("../engine/engine.wasm.zst", here))));

// With the files of a folder as /model.
export function engine(model = null, names = []) {
  const made = new Engine(compiled);
  for (const name of names) made.system.files.put(`/model/${name}`, readFileSync(`${model}/${name}`));
  return made;
}
