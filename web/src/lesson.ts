// The lesson of docs/lesson/README.md, which the build turns into HTML: all chapters, or one at a time.
import { html, nothing, type TemplateResult } from "lit-html";
import { unsafeHTML } from "lit-html/directives/unsafe-html.js";
import { format_address } from "./address";
import { clamp } from "./numbers";
import { unpacked } from "./packed";
import type { Screen, Shown } from "./screen";

interface Chapter {
  title: string;
  html: string;
}

interface Lesson {
  introduction: Chapter;
  chapters: readonly Chapter[];
}

declare const LESSON: string; // JSON, packed, put in when the page is bundled

let read: Lesson | null = null;
const lesson = (): Lesson => (read ??= JSON.parse(unpacked(LESSON)) as Lesson);

// Its links lead to the steps, if the report begins with them.
function chapter_of(number: number, steps: boolean): TemplateResult {
  const chapter = lesson().chapters[number - 1] as Chapter;
  return html`<article class=${`card chapter${steps ? "" : " without-steps"}`} aria-labelledby=${`chapter-${number}`}>
    <h2 id=${`chapter-${number}`} tabindex="-1"><span class="number">${number}</span> ${chapter.title}</h2>
    ${unsafeHTML(chapter.html)}
  </article>`;
}

export function lesson_view(steps: boolean, screen: Screen): Shown {
  const count = lesson().chapters.length;
  const at = clamp(screen.address.chapter, 0, count);
  const link = (chapter: number): string => format_address({ ...screen.address, view: "lesson", chapter });
  const go = (chapter: number): void => {
    screen.go({ chapter });
    scrollTo(0, 0);
    document.getElementById(`chapter-${chapter}`)?.focus();
  };
  const all = at === 0;
  const body = html`<div class="lesson">
    <div class="contents" role="navigation" aria-label="Chapters">
      <a href=${link(0)} aria-current=${at === 0 ? "page" : "false"}>All chapters</a>
      <ol>
        ${lesson().chapters.map(
          (chapter, i) =>
            html`<li>
              <a href=${link(i + 1)} aria-current=${at === i + 1 ? "page" : "false"}>${chapter.title}</a>
            </li>`,
        )}
      </ol>
    </div>
    <div class="chapters">
      ${all
        ? html`<article class="card chapter">
              <h2>${lesson().introduction.title}</h2>
              ${unsafeHTML(lesson().introduction.html)}
            </article>
            ${lesson().chapters.map((_, i) => chapter_of(i + 1, steps))}`
        : chapter_of(at, steps)}
      ${all
        ? nothing
        : html`<div class="bar-of-tools">
            <button class="plain" ?disabled=${at === 1} @click=${() => go(at - 1)}>Back</button>
            <button class="plain" ?disabled=${at === count} @click=${() => go(at + 1)}>Next chapter</button>
            <span class="fact">${at} of ${count}</span>
          </div>`}
    </div>
  </div>`;
  return {
    body,
    name: at === 0 ? "lesson" : `lesson-${at}`,
    tables: () => [],
    picture: () => null,
    command: (report) => report,
  };
}
