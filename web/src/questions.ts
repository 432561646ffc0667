// Questions of the lesson: the reader types a number or chooses, is told whether it is right, and may try again.
import { html, nothing, type TemplateResult } from "lit-html";
import type { Screen } from "./screen";

export type Question = { answer: string } | { choices: readonly string[]; right: number };

const given = new Map<Question, { right: boolean; text: string }>(); // while the page is open

// As people write numbers: "1,024", "0,36", "3 %".
function number_of(text: string): number {
  const plain = text.trim().replace(/\s*%$/, "").replace(/\u2212/g, "-");
  if (plain === "") return NaN;
  return Number(/^-?[1-9]\d{0,2}(,\d{3})+$/.test(plain) ? plain.replaceAll(",", "") : plain.replace(",", "."));
}

// To as many decimals as the answer has.
function is_answer(text: string, answer: string): boolean {
  const decimals = answer.split(".")[1]?.length ?? 0;
  return Math.abs(number_of(text) - Number(answer)) <= 0.5001 * 10 ** -decimals;
}

export const score_of = (questions: readonly Question[]): string =>
  `${questions.filter((one) => given.get(one)?.right).length} of ${questions.length}`;

export function question_form(question: Question, screen: Screen): TemplateResult {
  const before = given.get(question);
  const answer = (event: SubmitEvent): void => {
    event.preventDefault();
    const text = String(new FormData(event.target as HTMLFormElement).get("answer") ?? "");
    if (text.trim() === "") return;
    given.set(question, { text, right: "choices" in question ? Number(text) === question.right : is_answer(text, question.answer) });
    screen.go({});
  };
  const fields =
    "choices" in question
      ? question.choices.map(
          (choice, i) =>
            html`<label class="check"><input type="radio" name="answer" value=${i} ?checked=${before?.text === String(i)} />${choice}</label>`,
        )
      : html`<input name="answer" inputmode="decimal" autocomplete="off" aria-label="Your answer" .value=${before?.text ?? ""} />`;
  return html`<form class="ask" @submit=${answer}>
    ${"choices" in question ? html`<div role="radiogroup" aria-label="Your answer">${fields}</div>` : fields}
    <button class="plain">Check</button>
    <span class=${before?.right ? "right" : "wrong"} role="status"
      >${before ? (before.right ? "Right." : "Not yet: try again, or open the answer.") : nothing}</span
    >
  </form>`;
}
