// A small Transformer learns pairs in the page: its loss, and what it writes and attends to on the way.
import { Fault } from "../read/check";
import { read_explanation } from "../read/data";
import type { Heads } from "../explanation";
import type { Client } from "./client";

const kFolder = "/learn";
const kRound = 10; // updates between two looks at the model
export const kMostUpdates = 200;
const kText = "You are welcome";

// The first pairs of the phrase book (data/phrases.es.tsv).
const kPairs = `You are welcome	De nada
You're welcome	De nada
Thank you	Gracias
Thanks	Gracias
Thank you very much	Muchas gracias
Thanks a lot	Muchas gracias
Many thanks	Muchas gracias
Thank you for your help	Gracias por su ayuda
Thank you for everything	Gracias por todo
Thank you for coming	Gracias por venir
No, thank you	No, gracias
Yes, please	Sí, por favor
Please	Por favor
You are very kind	Es usted muy amable
Don't mention it	No hay de qué
No problem	No hay problema
My pleasure	Es un placer
Excuse me	Disculpe
I am sorry	Lo siento
I'm sorry	Lo siento`;

// 64 wide, one layer each.
export const config_for = (steps: number): object => ({
  model: { model_dim: 64, heads: 4, ff_dim: 128, encoder_layers: 1, decoder_layers: 1, positions: 32 },
  tokenizer: { vocab: 300 },
  training: { steps, rate: 0.003, warmup: 20, log_every: 1, validate_every: kRound, batch_tokens: 1000 },
});

// The losses of the lines of log.jsonl that have one.
export function losses_of(log: string): number[] {
  const lines = log.split("\n").filter((line) => line !== "");
  return lines.flatMap((line) => {
    const { loss } = JSON.parse(line) as { loss?: unknown };
    return typeof loss === "number" ? [loss] : [];
  });
}

export class Training {
  pairs = kPairs;
  text = kText;
  losses: number[] = [];
  heads: Heads | null = null; // of the text, by the model as it is now
  running = false;
  fault = "";
  private wanted = false;
  private learned = ""; // the pairs of what is in the folder

  constructor(
    private readonly client: Client,
    private readonly redraw: () => void,
  ) {}

  stop(): void {
    this.wanted = false;
    this.redraw();
  }

  // Goes on where it stopped, unless the pairs are others.
  async start(): Promise<void> {
    if (this.running) return;
    this.wanted = this.running = true;
    this.fault = "";
    if (this.learned !== this.pairs || this.losses.length >= kMostUpdates) {
      this.learned = this.pairs;
      this.losses = [];
      this.heads = null;
      this.client.remove(kFolder);
      this.client.put(new Map([[`${kFolder}/pairs.tsv`, new TextEncoder().encode(`${this.pairs}\n`)]]));
    }
    this.redraw();
    try {
      while (this.wanted && this.losses.length < kMostUpdates) await this.round();
    } catch (fault) {
      if (!(fault instanceof Fault)) throw fault;
      this.fault = fault.message;
      this.learned = "";
    }
    this.wanted = this.running = false;
    this.redraw();
  }

  private async round(): Promise<void> {
    const config = `${kFolder}/config.json`;
    const steps = this.losses.length + kRound;
    this.client.put(new Map([[config, new TextEncoder().encode(JSON.stringify(config_for(steps)))]]));
    const pairs = `${kFolder}/pairs.tsv`;
    const words = ["train", "--config", config, "--train", pairs, "--valid", pairs, "--out", `${kFolder}/model`];
    const { read } = await this.client.run(words, `${kFolder}/model/log.jsonl`);
    const before = this.losses.length;
    this.losses = losses_of(read);
    if (this.losses.length <= before) throw new Fault("The training did not go on.");
    const look = ["explain", "--model", `${kFolder}/model`, "--text", this.text, "--weights", "--json"];
    const { out } = await this.client.run(look);
    const explanation = read_explanation(out);
    if (explanation.kind === "heads") this.heads = explanation;
    this.redraw();
  }
}
