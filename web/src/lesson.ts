// The lesson of docs/lesson/README.md, which the build turns into HTML and questions: all chapters, or one at a time.
import { html, nothing, type TemplateResult } from "lit-html";
import { unsafeHTML } from "lit-html/directives/unsafe-html.js";
import { format_address } from "./address";
import { clamp } from "./numbers";
import { unpacked } from "./packed";
import { type Question, question_form, score_of } from "./questions";
import type { Screen, Shown } from "./screen";

interface Chapter {
  title: string;
  parts: readonly (string | Question)[];
}

interface Lesson {
  introduction: Chapter;
  chapters: readonly Chapter[];
  summary: Chapter;
}

declare const LESSON: string; // JSON, packed, put in when the page is bundled

let read: Lesson | null = null;
const lesson = (): Lesson => (read ??= JSON.parse(unpacked(LESSON)) as Lesson);

const questions_of = (chapter: Chapter): Question[] => chapter.parts.filter((part) => typeof part !== "string");

const parts_of = (chapter: Chapter, screen: Screen): TemplateResult[] =>
  chapter.parts.map((part) => (typeof part === "string" ? html`${unsafeHTML(part)}` : question_form(part, screen)));

// Its links lead to the steps, if the report begins with them. The summary is the chapter behind the last one.
function chapter_of(number: number, steps: boolean, screen: Screen): TemplateResult {
  const { chapters, summary } = lesson();
  const numbered = chapters[number - 1];
  const chapter = numbered ?? summary;
  const score = score_of(questions_of(chapter));
  return html`<article class=${`card chapter${steps ? "" : " without-steps"}`} aria-labelledby=${`chapter-${number}`}>
    <h2 id=${`chapter-${number}`} tabindex="-1">
      ${numbered ? html`<span class="number">${number}</span> ` : nothing}${chapter.title}
    </h2>
    ${parts_of(chapter, screen)} ${numbered ? html`<p class="score" role="status">${score} answered right.</p>` : nothing}
  </article>`;
}

export function lesson_view(steps: boolean, screen: Screen): Shown {
  const { introduction, chapters, summary } = lesson();
  const count = chapters.length + 1;
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
        ${chapters.map(
          (chapter, i) =>
            html`<li>
              <a href=${link(i + 1)} aria-current=${at === i + 1 ? "page" : "false"}>${chapter.title}</a>
            </li>`,
        )}
      </ol>
      <a href=${link(count)} aria-current=${at === count ? "page" : "false"}>${summary.title}</a>
      <p>${score_of(chapters.flatMap(questions_of))} answered right.</p>
    </div>
    <div class="chapters">
      ${all
        ? html`<article class="card chapter">
              <h2>${introduction.title}</h2>
              ${parts_of(introduction, screen)}
            </article>
            ${Array.from({ length: count }, (_, i) => chapter_of(i + 1, steps, screen))}`
        : chapter_of(at, steps, screen)}
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
