// What the reader can do where the engine is in the page: change the steps, have another text explained, see a head's
// numbers. The engine's answers take the place of the explanations that the page came with.
import { Fault } from "../check";
import { command_line } from "../command";
import { read_explanation } from "../data";
import type { Explanation, Heads, LeftOut, Report, Steps } from "../explanation";
import { Client } from "./client";
import { arrays_in, folder_of, is_model, model_in } from "./files";
import { left_out_words } from "./left_out";
import { Training } from "./training";
import { arguments_of, type Setup, setup_of } from "./setup";

export interface Live {
  busy: boolean;
  fault: string; // why the last change was not made
  has_model: boolean;
  setup_of(steps: Steps): Setup;
  before(explanation: Explanation): Explanation | null; // what it was before the reader changed it
  keep(explanation: Explanation): number; // its place among those kept of its kind
  command_of(explanation: Explanation): string | null;
  change(steps: Steps, change: (setup: Setup) => void): void;
  reset(explanation: Explanation): void;
  text_of(heads: Heads): string; // that the model read
  explain_text(heads: Heads, text: string): void;
  leave_out(heads: Heads, left_out: LeftOut): void; // of the same text
  explain_head(heads: Heads, options: string[]): void;
  open_files(files: File[]): Promise<void>; // arrays for the steps, or a model
  say(fault: string): void;
  training: Training;
}

const kText = "You are welcome"; // what a model reads that the reader opened

interface Made {
  words: string[]; // of the command
  setup: Setup | null;
  first: Explanation | null;
  text: string; // that a model read
}

class LivePage implements Live {
  busy = false;
  fault = "";
  readonly training: Training;
  private asked: { at: number; setup: Setup } | null = null; // what is being computed, and where it goes
  private readonly made = new WeakMap<Explanation, Made>();
  private model: string[] = []; // the option of a model that the reader opened
  private opened = 0;
  private next: (() => Promise<void>) | null = null; // what was asked for last while something ran

  constructor(
    private readonly client: Client,
    private readonly report: Report,
    public has_model: boolean,
    private readonly redraw: () => void,
    private readonly show: (of: number) => void,
  ) {
    this.training = new Training(client, redraw);
  }

  setup_of(steps: Steps): Setup {
    const asked = this.asked?.at === this.report.explanations.indexOf(steps) ? this.asked.setup : null;
    return asked ?? this.made.get(steps)?.setup ?? setup_of(steps);
  }
  before(explanation: Explanation): Explanation | null {
    return this.made.get(explanation)?.first ?? null;
  }
  keep(explanation: Explanation): number {
    const { beside } = this.report;
    if (!beside.includes(explanation)) beside.push(explanation);
    return beside.filter((one) => one.kind === explanation.kind).indexOf(explanation);
  }
  command_of(explanation: Explanation): string | null {
    const made = this.made.get(explanation);
    return made ? command_line(made.words, this.report.command) : null;
  }
  say(fault: string): void {
    this.fault = fault;
    this.redraw();
  }

  change(steps: Steps, change: (setup: Setup) => void): void {
    const setup = structuredClone(this.setup_of(steps));
    change(setup);
    const first = this.before(steps) ?? steps;
    const at = this.report.explanations.indexOf(steps);
    this.asked = { at, setup };
    const words = arguments_of(setup);
    void this.ask(words, (answer) => this.put(at, answer, { words, setup, first, text: "" }));
  }

  reset(explanation: Explanation): void {
    const first = this.before(explanation);
    const { explanations } = this.report;
    if (first) explanations[explanations.indexOf(explanation)] = first;
    this.say("");
  }

  // An encoder's explanation does not have its text.
  text_of(heads: Heads): string {
    return this.made.get(heads)?.text ?? heads.translation?.source_text ?? (heads.input || kText);
  }

  explain_text(heads: Heads, text: string): void {
    this.read_text(heads, text, [], null);
  }

  leave_out(heads: Heads, left_out: LeftOut): void {
    const first = this.before(heads) ?? heads;
    if (left_out.heads.length + left_out.keys.length === 0 && first !== heads) return this.reset(heads);
    this.read_text(heads, this.text_of(heads), left_out_words(heads, left_out), first);
  }

  private read_text(heads: Heads, text: string, options: string[], first: Explanation | null): void {
    const words = ["explain", ...this.model, "--text", text, "--weights", ...options];
    const at = this.report.explanations.indexOf(heads);
    void this.ask(words, (answer) => this.put(at, answer, { words, setup: null, first, text }));
  }

  explain_head(heads: Heads, options: string[]): void {
    const text = this.text_of(heads);
    const words = ["explain", ...this.model, "--text", text, ...options, ...left_out_words(heads, heads.left_out)];
    void this.ask(words, (answer) => {
      const at = this.place_of((one) => one.kind === "head" && this.made.has(one));
      this.put(at, answer, { words, setup: null, first: null, text });
      this.show(at);
    });
  }

  async open_files(files: File[]): Promise<void> {
    if (is_model(files)) {
      const folder = `/model-${++this.opened}/${folder_of(files)}`;
      this.client.put(await model_in(files, folder));
      const words = ["explain", "--model", folder, "--text", kText, "--weights"];
      await this.ask(words, (answer) => {
        const at = this.place_of((one) => one.kind === "heads");
        this.model = ["--model", folder];
        this.has_model = true;
        this.put(at, answer, { words, setup: null, first: null, text: kText });
        this.show(at);
      });
      return;
    }
    const { given, contents, fault } = await arrays_in(files, `/dropped-${++this.opened}`);
    // Those of now: an answer may have come while the files were read.
    const steps = this.report.explanations.find((one): one is Steps => one.kind === "steps");
    if (fault !== "" || !steps) return this.say(fault);
    this.client.put(contents); // what an earlier result was made of stays where it is
    this.change(steps, (setup) => {
      for (const [name, path] of given) {
        setup.files.set(name, path);
        setup.matrices.delete(name);
        if (name === "mask") setup.visible = null;
      }
      setup.substitutes.clear();
    });
  }

  // Of the first such explanation, or of a new one.
  private place_of(is_it: (one: Explanation) => boolean): number {
    const { explanations } = this.report;
    const at = explanations.findIndex(is_it);
    return at < 0 ? explanations.length : at;
  }

  private put(at: number, answer: Explanation, made: Made): void {
    this.made.set(answer, made);
    this.report.explanations[at] = answer;
  }

  // One command at a time; of those asked for while one runs the last one runs next.
  private async ask(words: string[], use: (answer: Explanation) => void): Promise<void> {
    if (this.busy) {
      this.next = () => this.ask(words, use);
      return;
    }
    this.busy = true;
    this.redraw();
    try {
      const { out } = await this.client.run([...words, "--json"]);
      use(read_explanation(out));
      this.fault = "";
    } catch (fault) {
      if (!(fault instanceof Fault)) throw fault;
      this.fault = fault.message;
    } finally {
      this.busy = false;
    }
    const next = this.next;
    this.next = null;
    if (!next) this.asked = null;
    if (next) await next();
    else this.redraw();
  }
}

const text_of = (id: string): string => document.getElementById(id)?.textContent?.trim() ?? "";

// null: the page came without an engine, or the browser has no WebAssembly.
export function live_of(report: Report, redraw: () => void, show: (of: number) => void): Live | null {
  const engine = text_of("engine");
  if (engine === "" || typeof WebAssembly === "undefined") return null;
  const model = text_of("model");
  const files = model === "" ? {} : (JSON.parse(model) as Record<string, string>);
  return new LivePage(new Client(engine, files), report, model !== "", redraw, show);
}
