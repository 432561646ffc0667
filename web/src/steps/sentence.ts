// The sentence of the steps: its words name the inputs, and each word has a vector of small whole numbers.
import type { Steps } from "../explanation";

export const kSentence = "You are welcome";
export const kDocuments = "*"; // the worked example as the documents have it: input 1, 2 and 3
export const kMostWords = 8;

// Those of the worked example.
const kVectors = new Map([
  ["you", [1, 0, 1, 0]],
  ["are", [0, 2, 0, 2]],
  ["welcome", [1, 1, 1, 1]],
]);

export const words_of = (sentence: string): string[] => {
  const text = sentence === "" ? kSentence : sentence;
  return text.split(/\s+/).filter((word) => word !== "").slice(0, kMostWords);
};

// A model learns its vectors; here they follow from the letters, so that a word has the same wherever it stands.
export function vector_of(word: string, size: number): number[] {
  const plain = word.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
  const known = kVectors.get(plain);
  if (known?.length === size) return known;
  let hash = 7;
  for (const letter of plain) hash = (Math.imul(hash, 31) + (letter.codePointAt(0) as number)) >>> 0;
  return Array.from({ length: size }, (_, d) => Math.floor(hash / 5 ** (d + 1)) % 3);
}

const kNumbered = /^(input|query|key|value|output) (\d+)$/;

// Gives rows, columns and texts the words of the sentence, if it has one for each input.
export function name_by_words(steps: Steps, sentence: string): void {
  const words = words_of(sentence);
  const tensors = steps.sections.flatMap((section) => section.blocks.flatMap((block) => block.tensors));
  const inputs = tensors.find(({ name }) => name === "inputs");
  if (sentence === kDocuments || inputs?.shape[0] !== words.length) return;
  const word = (i: string): string => words[Number(i) - 1] ?? "";
  const label = (name: string): string => name.replace(kNumbered, (_, _role, i: string) => word(i) || name);
  const in_text = (text: string): string => text.replace(/\binput (\d+)\b/g, (all, i: string) => word(i) || all);
  for (const tensor of tensors) {
    tensor.rows = tensor.rows.map(label);
    tensor.columns = tensor.columns.map(label);
  }
  for (const section of steps.sections) {
    section.title = in_text(section.title).replace(/^Scores for the first input$/, `Scores for ${words[0]}`).replace(/^Sum to output 1$/, `Sum to the output of ${words[0]}`);
    for (const { lines } of section.blocks) {
      for (const line of lines) for (const piece of line) piece.text = in_text(piece.text);
    }
  }
}
