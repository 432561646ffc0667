// web/lesson/draw.mjs [--check]: draws the pictures of docs/lesson/README.md from what build/release/bin/qkv says; with
// --check compares them with the committed ones instead.
import { readFileSync, writeFileSync } from "node:fs";
import { not_told, patches, transformer, writes } from "./figures_models.mjs";
import { eight_steps, heads, masks, root } from "./figures_steps.mjs";
import { near_and_far, roles, why } from "./figures_ways.mjs";
import { learned, positions, word } from "./figures_words.mjs";

const pictures = { why, roles, near_and_far, eight_steps, root, masks, heads, transformer, positions, word, learned, not_told, patches, writes };

let differ = 0;
for (const [name, draw] of Object.entries(pictures)) {
  const file = new URL(`../../docs/lesson/${name}.svg`, import.meta.url);
  const drawn = draw();
  if (!process.argv.includes("--check")) writeFileSync(file, drawn);
  else if (readFileSync(file, "utf8") !== drawn) {
    console.error(`docs/lesson/${name}.svg is not what the program says: run web/lesson/draw.mjs and commit it`);
    differ = 1;
  }
}
process.exit(differ);
