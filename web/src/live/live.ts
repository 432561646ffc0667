// What the reader can do where the engine is in the page: change the steps, have another text explained, see a head's
// numbers. The engine's answers take the place of the explanations that the page came with.
import { Fault } from "../read/check";
import { command_line } from "../command";
import { json_of } from "../read/check";
import { left_out_of } from "../read/read_heads";
import { read_explanation } from "../read/data";
import type { Explanation, Heads, LeftOut, Report, Steps } from "../explanation";
import type { Address } from "../address";
import { kDocuments, name_by_words, vector_of, words_of } from "../steps/sentence";
import { changes_text, setup_with } from "./changes";
import { Client } from "./client";
import { arrays_in, model_in, models_in } from "./files";
import { left_out_words } from "./left_out";
import { Training } from "./training";
import { arguments_of, type Setup, setup_of } from "./setup";

export interface Live {
  busy: boolean; // for so long that it is shown
  fault: string; // why the last change was not made
  has_model: boolean;
  setup_of(steps: Steps): Setup;
  before(explanation: Explanation): Explanation | null; // what it was before the reader changed it
  keep(explanation: Explanation): number; // its place among those kept of its kind
  command_of(explanation: Explanation): string | null;
  change(steps: Steps, change: (setup: Setup) => void, lasting?: boolean): void; // `lasting`: the address is to have it
  redraw(): void;
  reset(explanation: Explanation): void;
  follow(address: Address): void; // has what the address says computed, if it is not what is shown
  text_of(heads: Heads): string; // that the model read
  explain_text(text: string): void;
  leave_out(left_out: LeftOut): void; // of the same text
  explain_head(heads: Heads, options: string[]): void;
  open_files(files: File[]): Promise<void>; // arrays for the steps, or a model
  say(fault: string): void;
  training: Training;
}

const kShown = 100; // milliseconds after which it is shown that the engine works
const kText = "You are welcome"; // what a model reads that the reader opened
const kWriting = ["--write", "24"]; // what a language model writes behind a text, as the program's `qkv web` has it

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
  private running = false;
  private next: (() => Promise<void>) | null = null; // what was asked for last while something ran

  private readonly recorded: Steps | null; // the steps that the page came with
  private plain: Steps | null; // those of the sentence before anything of them is changed
  private said = ""; // the sentence
  private followed = "\n"; // it, and the changes of it that were asked for last
  private followed_text = "\n"; // the same of a model's text
  private text: string; // that the model of the page has read

  constructor(
    private readonly client: Client,
    private readonly report: Report,
    public has_model: boolean,
    readonly redraw: () => void,
    private readonly go: (patch: Partial<Address>, lasting?: boolean) => void,
  ) {
    const { explanations } = report;
    this.recorded = this.plain = explanations.find((one) => one.kind === "steps") ?? null;
    if (this.recorded) name_by_words(this.recorded, "");
    this.text = explanations.find((one) => one.kind === "heads")?.translation?.source_text ?? kText;
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

  // A change goes into the address, from where follow() takes it; what an address cannot carry is computed at once.
  change(steps: Steps, change: (setup: Setup) => void, lasting = true): void {
    const setup = structuredClone(this.setup_of(steps));
    change(setup);
    const made = changes_text(setup, this.base());
    if (made !== null) return this.go({ made }, lasting);
    const name = `file-${++this.opened}`;
    this.followed = `${this.said}\n${name}`;
    this.compute(setup);
    this.go({ made: name });
  }

  reset(explanation: Explanation): void {
    this.go(explanation.kind === "heads" ? { out: "" } : { made: "" });
  }

  follow(address: Address): void {
    const { explanations } = this.report;
    const shown = explanations[address.of] ?? explanations[0];
    try {
      if (shown?.kind === "heads" && this.has_model) this.follow_text(shown, address);
      else if (this.recorded) this.follow_steps(address);
    } catch (fault) {
      if (!(fault instanceof Fault)) throw fault;
      this.fault = `This link cannot be read whole. ${fault.message}`;
    }
  }

  private follow_steps({ said, made }: Pick<Address, "said" | "made">): void {
    if (/^file-\d+$/.test(made) && `${said}\n${made}` !== this.followed) {
      this.follow_steps({ said, made: "" });
      this.fault = "This link is of a page with files of its reader's, which a link cannot carry.";
      return;
    }
    const wanted = `${said}\n${made}`;
    if (wanted === this.followed) return;
    this.followed = wanted;
    if (said !== this.said) this.plain = said === "" ? this.recorded : null;
    this.said = said;
    const setup = setup_with(made, this.base());
    if (!this.plain) this.compute(this.base(), made === "" ? null : setup);
    else if (made !== "") this.compute(setup);
    else {
      this.report.explanations[this.place_of((one) => one.kind === "steps")] = this.plain;
      this.asked = null;
      this.fault = "";
    }
  }

  // The steps of the sentence before anything of them is changed.
  private base(): Setup {
    const setup = setup_of(this.recorded as Steps);
    const inputs = setup.matrices.get("inputs") as number[][] | undefined;
    if (this.said === "" || this.said === kDocuments || !inputs) return setup;
    setup.matrices.set("inputs", words_of(this.said).map((word) => vector_of(word, inputs[0]?.length ?? 0)));
    return setup;
  }

  // `after`: what is computed next, once those of the sentence are there.
  private compute(setup: Setup, after: Setup | null = null): void {
    const at = this.place_of((one) => one.kind === "steps");
    const { said, followed, plain } = this;
    this.asked = { at, setup: after ?? setup };
    const words = arguments_of(setup);
    void this.ask(words, (answer) => {
      if (followed !== this.followed || answer.kind !== "steps") return;
      name_by_words(answer, said);
      this.plain ??= answer;
      this.put(at, answer, { words, setup, first: plain, text: "" });
      if (after) this.compute(after);
    });
  }

  // An encoder's explanation does not have its text.
  text_of(heads: Heads): string {
    return this.made.get(heads)?.text ?? heads.translation?.source_text ?? (heads.input || kText);
  }

  explain_text(text: string): void {
    this.go({ said: text, out: "", token: -1, also: "", key: -1 });
  }

  leave_out(left_out: LeftOut): void {
    this.go({ out: left_out.heads.length + left_out.keys.length === 0 ? "" : JSON.stringify(left_out) });
  }

  private follow_text(heads: Heads, { said, out }: Address): void {
    const wanted = `${said}\n${out}`;
    if (wanted === this.followed_text) return;
    this.followed_text = wanted;
    const text = said === "" || said === kDocuments ? this.text : said;
    const left_out = out === "" ? null : left_out_of(json_of(out, "what is left out"), "what is left out");
    const read = (from: Heads, options: string[], first: Explanation | null, then: (answer: Heads) => void): void => {
      const words = ["explain", ...this.model, "--text", text, "--weights", ...writing(from), ...options];
      const at = this.report.explanations.indexOf(from);
      void this.ask(words, (answer) => {
        if (wanted !== this.followed_text || answer.kind !== "heads") return;
        this.put(at, answer, { words, setup: null, first, text });
        then(answer);
      });
    };
    const leave_out = (from: Heads): void => {
      if (left_out) read(from, left_out_words(from, left_out), this.before(from) ?? from, () => undefined);
    };
    const before = this.before(heads);
    if (this.text_of(heads) !== text) return read(heads, [], null, leave_out);
    if (left_out) return leave_out(heads);
    if (before) this.report.explanations[this.report.explanations.indexOf(heads)] = before;
    this.fault = "";
  }

  explain_head(heads: Heads, options: string[]): void {
    const text = this.text_of(heads);
    const words = ["explain", ...this.model, "--text", text, ...writing(heads), ...options, ...left_out_words(heads, heads.left_out)];
    void this.ask(words, (answer) => {
      const at = this.place_of((one) => one.kind === "head" && this.made.has(one));
      this.put(at, answer, { words, setup: null, first: null, text });
      this.show(at);
    });
  }

  async open_files(files: File[]): Promise<void> {
    const models = models_in(files);
    if (models.length > 1) {
      return this.say(`${models.length} models at once, ${models.join(" and ")}: drop the folder of one of them.`);
    }
    if (models.length === 1) {
      const folder = `/model-${++this.opened}/${models[0]}`;
      this.client.put(await model_in(files, folder));
      const words = ["explain", "--model", folder, "--text", kText, "--weights"];
      const show = (answer: Explanation): void => {
        const at = this.place_of((one) => one.kind === "heads");
        this.model = ["--model", folder];
        this.has_model = true;
        this.followed_text = "\n";
        this.text = kText;
        this.put(at, answer, { words, setup: null, first: null, text: kText });
        this.show(at);
      };
      await this.ask(words, (answer) => {
        if (answer.kind !== "heads" || !answer.translation?.continues) return show(answer);
        words.push(...kWriting);
        void this.ask(words, show);
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

  private show(of: number): void {
    const { kind } = this.report.explanations[of] as Explanation;
    this.go({ of, view: "", cell: "", token: -1, also: "", key: -1, ...(kind === "heads" ? { said: "", out: "" } : {}) });
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
    if (this.running) {
      this.next = () => this.ask(words, use);
      return;
    }
    this.running = true;
    const shown = setTimeout(() => {
      this.busy = true;
      this.redraw();
    }, kShown);
    try {
      const { out } = await this.client.run([...words, "--json"]);
      use(read_explanation(out));
      this.fault = "";
    } catch (fault) {
      if (!(fault instanceof Fault)) throw fault;
      this.fault = fault.message;
    } finally {
      clearTimeout(shown);
      this.running = this.busy = false;
    }
    const next = this.next;
    this.next = null;
    if (!next) this.asked = null;
    if (next) await next();
    else this.redraw();
  }
}

const writing = (heads: Heads): string[] => (heads.translation?.continues ? kWriting : []);

const text_of = (id: string): string => document.getElementById(id)?.textContent?.trim() ?? "";

// null: the page came without an engine, or the browser has no WebAssembly.
export function live_of(report: Report, redraw: () => void, go: (patch: Partial<Address>, lasting?: boolean) => void): Live | null {
  const engine = text_of("engine");
  if (engine === "" || typeof WebAssembly === "undefined") return null;
  const model = text_of("model");
  const files = model === "" ? {} : (JSON.parse(model) as Record<string, string>);
  return new LivePage(new Client(engine, files), report, model !== "", redraw, go);
}
