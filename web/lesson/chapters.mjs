// docs/lesson/README.md as the page has it: a title and HTML for each chapter, pictures inlined.
import { Marked } from "marked";
import { readFileSync } from "node:fs";
import { escaped } from "./svg.mjs";

const folder = new URL("../../docs/lesson/", import.meta.url);
const kHere = /^<!-- page: (\S.*) -->$/;

// HTML needs no quotes around single words, and no number a .0 at its end.
function shortened(tag) {
  return tag
    .replace(/(\d)\.0(?!\d)/g, "$1")
    .replace(/="([\w.#-]+)"(\/?)(?=[ >])/g, (_, word, end) => `=${word}${end && " /"}`);
}

// A picture is painted by the style of the page, and asks for no file.
function inlined(name, alt) {
  const picture = readFileSync(new URL(name, folder), "utf8").trim();
  return picture
    .replace(/<style>.*?<\/style>\n/s, "")
    .replace(/<svg [^>]*viewBox="([^"]*)"[^>]*>/, `<svg viewBox="$1" role="img" aria-label="${escaped(alt)}">`)
    .replace(/<(?!svg)[^>]*>/g, shortened)
    .replaceAll("\n", "");
}

// What stands in other files of the repository is named, as the page asks for no other file.
const marked = new Marked({
  renderer: {
    image: ({ href, text }) => inlined(href, text),
    link: ({ text }) => `<em>${text}</em>`,
    paragraph({ tokens }) {
      const inner = this.parser.parseInline(tokens);
      return inner.startsWith("<svg") ? `<figure>${inner}</figure>` : `<p>${inner}</p>`;
    },
    code: ({ text }) =>
      `<div class="scroll" tabindex="0" role="group" aria-label="Command and what it prints"><pre><code>${escaped(text)}</code></pre></div>`,
    html({ text }) {
      const address = kHere.exec(text.trim())?.[1];
      return address ? `<p class="here"><a href="#${escaped(`view=steps&${address.replaceAll(" ", "%20")}`)}">Open it in the steps</a></p>` : text;
    },
  },
});

// The introduction is the chapter before the first.
export function chapters() {
  const [introduction, ...rest] = readFileSync(new URL("README.md", folder), "utf8").split(/^## /m);
  const chapter = (text) => {
    const [title, ...lines] = text.split("\n");
    return { title: title.replace(/^(# |\d+\. )/, ""), html: marked.parse(lines.join("\n")).trim() };
  };
  return { introduction: chapter(introduction), chapters: rest.map(chapter) };
}
