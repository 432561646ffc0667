// The chapters of docs/lesson/README.md and their questions, as they are written.
import { readFileSync } from "node:fs";

export const folder = new URL("../../docs/lesson/", import.meta.url);
export const written = readFileSync(new URL("README.md", folder), "utf8").split(/^## \d+\. /m).slice(1);
export const titles = written.map((chapter) => chapter.split("\n")[0]);

const kQuestion = /^\*\*(Predict|Check)\.\*\* (.+?)\n\n((?:- .+?\n)*)\n?<!-- (answer|choose): (.+?) -->\n\n<details><summary>Answer<\/summary>/gms;
export const questions_of = (chapter) =>
  [...chapter.matchAll(kQuestion)].map(([, is, text, choices, kind, answer]) => ({ is, text, choices, kind, answer }));
