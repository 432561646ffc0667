// What every view is given: where the reader is, how to go elsewhere, and the colours.
import type { TemplateResult } from "lit-html";
import type { Address } from "./address";
import type { Colors } from "./colors";
import type { NamedCost } from "./cost";
import type { Explanation } from "./explanation";
import type { Live } from "./live/live";
import type { Table } from "./save";

export interface Screen {
  address: Address;
  colors: Colors;
  printing: boolean;
  narrow: boolean; // a screen as wide as a telephone's
  live: Live | null; // the engine, where the page has it
  other: Explanation | null; // the run that is subtracted from what is shown; of the same kind
  go(patch: Partial<Address>, lasting?: boolean): void; // `lasting`: unless more follows at once, as while a slider moves
}

// A view as it is drawn, and what of it can be saved.
export interface Shown {
  body: TemplateResult;
  name: string; // of saved files: "head-1-0"
  tables(): Table[]; // as CSV
  costs?: NamedCost[]; // of the calls of attention that it shows
  picture(): TemplateResult | null; // an <svg> of its own, that needs no style
  command(report: string): string; // that shows this alone, from the one that wrote the report
}
