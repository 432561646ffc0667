// The engine in a worker: one module that runs the program's commands one after the other.
import { Exit, System } from "./system";

export interface Answer {
  code: number; // the program's exit code
  out: string;
  error: string; // its lines on standard error
  read: string; // the file that was asked for; "" where there is none
}

interface Exports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  allocate(size: number): number;
  release(block: number): void;
  run(count: number, args: number): number;
}

export class Engine {
  private readonly out: [Uint8Array[], Uint8Array[]] = [[], []];
  readonly system = new System((descriptor, part) => this.out[descriptor === 1 ? 0 : 1].push(part));
  private exports: Exports | null = null;

  constructor(private readonly module: WebAssembly.Module) {}

  private start(): Exports {
    const instance = new WebAssembly.Instance(this.module, this.system.imports(this.module));
    const exports = instance.exports as unknown as Exports;
    this.system.memory = exports.memory;
    exports._initialize();
    return exports;
  }

  // `path`: a file that the answer is to have.
  run(args: string[], path = ""): Answer {
    this.exports ??= this.start();
    const { allocate, release, run, memory } = this.exports;
    const text = new TextEncoder().encode(args.map((one) => `${one}\0`).join(""));
    let code: number;
    try {
      const block = allocate(text.length + 1);
      new Uint8Array(memory.buffer, block, text.length).set(text);
      code = run(args.length, block);
      release(block);
    } catch (error) {
      this.exports = null; // whatever it was about, it is not to be trusted with more
      code = error instanceof Exit ? error.code : 1;
      if (!(error instanceof Exit)) {
        this.out[1].push(new TextEncoder().encode(`the engine stopped: ${(error as Error).message}`));
      }
    }
    const [out, said] = this.out.map((parts) => taken(parts));
    const read = path === "" ? null : this.system.files.get(path);
    return { code, out: out as string, error: (said as string).trim(), read: new TextDecoder().decode(read ?? undefined) };
  }
}

function taken(parts: Uint8Array[]): string {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts.splice(0)) {
    whole.set(part, at);
    at += part.length;
  }
  return new TextDecoder().decode(whole);
}
