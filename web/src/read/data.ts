// The data of a report (docs/explain_json.md), read and checked: the page works on nothing that was not.
import * as check from "./check";
import { Fault, type Json } from "./check";
import type { Explanation, Report } from "../explanation";
import { head_of, picture_of } from "./read_head";
import { heads_of } from "./read_heads";
import { maps_of } from "./read_maps";
import { steps_of } from "./read_steps";
import { give_measures, token_of } from "./read_token";

// Refuses what another major version wrote.
function check_schema(value: Json, name: string): void {
  const schema = typeof value.schema === "string" ? value.schema : "";
  const version = new RegExp(`^qkv/${name}/(\\d+)$`).exec(schema);
  if (!version) throw new Fault(`The data have no "schema": "qkv/${name}/1"; this page cannot show them.`);
  if (version[1] !== "1") {
    throw new Fault(
      `The data are of version ${version[1]}, this page shows version 1: open a report that one qkv wrote.`,
    );
  }
}

const kKinds: Record<string, (value: Json) => Explanation> = {
  steps: steps_of,
  heads: heads_of,
  head: head_of,
  token: token_of,
  picture: picture_of,
  maps: maps_of,
};

function explanation_of(value: unknown): Explanation {
  const object = check.object_of(value, "an explanation");
  check_schema(object, "explain");
  const read = typeof object.kind === "string" ? kKinds[object.kind] : undefined;
  if (!read) throw new Fault(`This page shows no explanation of the kind ${JSON.stringify(object.kind)}.`);
  return read(object);
}

// One explanation, as a command prints it. Throws Fault.
export function read_explanation(text: string): Explanation {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Fault("The answer of the engine is cut off or broken.");
  }
  return explanation_of(value);
}

// The report of a page. Throws Fault; an explanation that is broken is left out, and named.
export function read_report(text: string): Report {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Fault("The data of this page are cut off or broken.");
  }
  const object = check.object_of(value, "the report");
  check_schema(object, "report");
  const faults: string[] = [];
  const read = (entry: unknown): Explanation[] => {
    try {
      return [explanation_of(entry)];
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      faults.push(error.message);
      return [];
    }
  };
  const explanations = check.list_of(object.explanations, "explanations", read).flat();
  // Reports from before there were two runs have none.
  const beside = check.list_of(object.beside ?? [], "beside", read).flat();
  for (const token of explanations) {
    if (token.kind !== "token") continue;
    for (const one of explanations) if (one.kind === "heads" && one.input === token.input) give_measures(token, one);
  }
  return {
    title: check.text_of(object.title, "title"),
    command: check.text_of(object.command, "command"),
    start: check.text_of(object.start ?? "", "start"),
    left_out: check.texts_of(object.left_out, "left_out"),
    explanations,
    beside,
    faults,
  };
}
