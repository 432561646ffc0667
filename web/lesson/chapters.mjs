// docs/lesson/README.md as the page has it: of each chapter a title and parts, HTML with pictures inlined and questions.
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

// A question's answer, behind its text: a number as it is typed, or the text of one of the choices listed before.
const kAnswer = /^<!-- (answer|choose): (.+) -->$/;

function question(kind, answer, list) {
  if (kind === "answer") {
    if (!/^-?\d+(\.\d+)?$/.test(answer)) throw new Error(`the answer ${answer} is not a number`);
    return { answer };
  }
  const choices = list.items.map((item) => item.text);
  const right = choices.indexOf(answer);
  if (right < 0) throw new Error(`${answer} is none of the choices ${choices.join(", ")}`);
  return { choices, right };
}

// HTML, a question, HTML ...
function parts_of(text) {
  const parts = [];
  let html = [];
  const end = () => {
    parts.push(marked.parser(html).trim());
    html = [];
  };
  for (const token of marked.lexer(text).filter(({ type }) => type !== "space")) {
    const mark = token.type === "html" && kAnswer.exec(token.text.trim());
    if (!mark) html.push(token);
    else {
      const asked = question(mark[1], mark[2], mark[1] === "choose" && html.pop());
      end();
      parts.push(asked);
    }
  }
  end();
  return parts;
}

// The introduction is the chapter before the first, summary and glossary are the last one.
export function chapters() {
  const source = readFileSync(new URL("README.md", folder), "utf8");
  const glossary = readFileSync(new URL("../glossary.md", folder), "utf8");
  const [introduction, ...rest] = `${source}\n${glossary.replace(/^# .*/, "")}`.split(/^## /m);
  const chapter = (text) => {
    const [title, ...lines] = text.split("\n");
    return { title: title.replace(/^(# |\d+\. )/, ""), parts: parts_of(lines.join("\n")) };
  };
  const last = rest.pop();
  return { introduction: chapter(introduction), chapters: rest.map(chapter), summary: chapter(last) };
}
