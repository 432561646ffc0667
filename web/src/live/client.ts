// The page's end of the engine: starts the worker and asks it one command after the other.
import type { Answer } from "./engine";
import type { Message, Question } from "./worker";

declare const QKV_WORKER: string; // the script of the worker, put in when the page is bundled

type Say = (text: string) => void;

export class Client {
  private worker: Worker | null = null;
  private last = 0;
  private readonly waiting = new Map<number, { done: (answer: Answer) => void; say: Say | null }>();

  // As base85.ts reads them: the compressed module, and files by their paths.
  constructor(
    private readonly engine: string,
    private files: Record<string, string>,
  ) {}

  private started(): Worker {
    if (this.worker) return this.worker;
    const url = URL.createObjectURL(new Blob([QKV_WORKER], { type: "text/javascript" }));
    const worker = new Worker(url);
    URL.revokeObjectURL(url);
    worker.addEventListener("message", ({ data }: MessageEvent<Message>) => {
      const asked = this.waiting.get(data.id);
      if (data.kind === "said") asked?.say?.(data.text);
      else {
        this.waiting.delete(data.id);
        asked?.done(data.answer);
      }
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
    for (const { done } of waiting) done({ code: 1, out: "", error, read: "" });
  }

  // `read`: a file whose content the answer is to have.
  run(args: string[], read = "", say: Say | null = null): Promise<Answer> {
    const id = ++this.last;
    return new Promise((done) => {
      this.waiting.set(id, { done, say });
      this.post({ kind: "run", id, args, read });
    });
  }

  // Puts files where a command can read them, instead of all that were below this folder.
  put(folder: string, files: Map<string, Uint8Array>): void {
    this.post({ kind: "put", remove: folder, files });
  }

  // Ends what runs, with everything that was put.
  stop(): void {
    this.worker?.terminate();
    this.worker = null;
    this.fail("stopped");
  }
}
