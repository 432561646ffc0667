// The worker's end: makes the engine of its bytes, then answers commands in their order.
import { decompress } from "fzstd";
import { bytes_of } from "./base85";
import { type Answer, Engine } from "./engine";

export type Question =
  | { kind: "start"; engine: string; files: Record<string, string> } // as letters; the engine compressed
  | { kind: "put"; files: Map<string, Uint8Array> }
  | { kind: "remove"; path: string }
  | { kind: "run"; id: number; args: string[]; read: string } // the file to answer with, or "";
export type Message = { id: number; answer: Answer };

let engine: Promise<Engine> | null = null;

async function started(engine: string, files: Record<string, string>): Promise<Engine> {
  const made = new Engine(await WebAssembly.compile(decompress(bytes_of(engine)) as BufferSource));
  for (const [path, content] of Object.entries(files)) made.system.files.put(path, bytes_of(content));
  return made;
}

addEventListener("message", async ({ data }: MessageEvent<Question>) => {
  if (data.kind === "start") {
    engine = started(data.engine, data.files);
    engine.catch(() => {}); // said with the first answer
    return;
  }
  try {
    const ready = await (engine as Promise<Engine>);
    if (data.kind === "put") {
      for (const [path, content] of data.files) ready.system.files.put(path, content);
      return;
    }
    if (data.kind === "remove") return ready.system.files.remove(data.path);
    postMessage({ id: data.id, answer: ready.run(data.args, data.read) } satisfies Message);
  } catch (error) {
    if (data.kind !== "run") return;
    const answer = { code: 1, out: "", read: "", error: `The engine does not start: ${(error as Error).message}` };
    postMessage({ id: data.id, answer } satisfies Message);
  }
});
