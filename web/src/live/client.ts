// The page's end of the engine: starts the worker and asks it one command after the other.
import { Fault } from "../read/check";
import { unpacked } from "../packed";
import type { Answer } from "./engine";
import type { Message, Question } from "./worker";

declare const WORKER: string; // the script of the worker, packed, put in when the page is bundled

// The line of an error without the name of the program and the advice to ask it for help.
const sentence_of = (error: string): string =>
  (error.split("\n").at(-1) ?? "").replace(/^qkv(?: \w+)*: /, "").replace(/ \(see .* --help\)$/, "");

export class Client {
  private worker: Worker | null = null;
  private last = 0;
  private readonly waiting = new Map<number, (answer: Answer) => void>();

  // As base85.ts reads them: the compressed module, and files by their paths.
  constructor(
    private readonly engine: string,
    private files: Record<string, string>,
  ) {}

  private started(): Worker {
    if (this.worker) return this.worker;
    const url = URL.createObjectURL(new Blob([unpacked(WORKER)], { type: "text/javascript" }));
    const worker = new Worker(url);
    URL.revokeObjectURL(url);
    worker.addEventListener("message", ({ data }: MessageEvent<Message>) => {
      this.waiting.get(data.id)?.(data.answer);
      this.waiting.delete(data.id);
    });
    worker.addEventListener("error", (event) => this.fail(`The engine does not start: ${event.message}`));
    this.worker = worker;
    this.post({ kind: "start", engine: this.engine, files: this.files });
    return worker;
  }

  private post(question: Question): void {
    this.started().postMessage(question);
  }

  private fail(error: string): void {
    const waiting = [...this.waiting.values()];
    this.waiting.clear();
    for (const done of waiting) done({ code: 1, out: "", error, read: "" });
  }

  // What the command prints, and the content of the file `read`, if one is named. Fault, in the engine's own sentence, if
  // it fails.
  async run(args: string[], read = ""): Promise<Answer> {
    const answer = await this.answer_to(args, read);
    if (answer.code !== 0) throw new Fault(sentence_of(answer.error) || `The engine ended with ${answer.code}.`);
    return answer;
  }

  private answer_to(args: string[], read: string): Promise<Answer> {
    const id = ++this.last;
    return new Promise((done) => {
      this.waiting.set(id, done);
      this.post({ kind: "run", id, args, read });
    });
  }

  // Puts files where a command can read them; one of the same path is replaced.
  put(files: Map<string, Uint8Array>): void {
    this.post({ kind: "put", files });
  }

  // Removes a file, or all below a folder.
  remove(path: string): void {
    this.post({ kind: "remove", path });
  }
}
