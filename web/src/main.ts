// Reads the data of the page, draws the view that its address names, and follows the address.
import { html, render } from "lit-html";
import { type Address, format_address, parse_address } from "./address";
import { Fault } from "./check";
import { read_colors } from "./colors";
import { read_report } from "./data";
import type { Report } from "./explanation";
import { dropped_files } from "./live/files";
import { live_of } from "./live/live";
import { failed_page, page } from "./page";
import type { Screen } from "./screen";

const root = document.getElementById("page") as HTMLElement;
const tables = document.getElementById("report") as HTMLElement;

// The tables of readers without scripts stay at hand.
function fold_tables(): void {
  if (tables.childElementCount === 0) return;
  const details = document.createElement("details");
  details.className = "all-numbers";
  render(html`<summary>Every number as tables</summary>`, details);
  document.body.append(details);
  details.append(tables);
}

function start(report: Report): void {
  let address = parse_address(location.hash);
  let colors = read_colors();
  let printing = false;
  const narrow = matchMedia("(max-width: 560px)");

  const draw = (): void => {
    const screen: Screen = { address, colors, printing, narrow: narrow.matches, live, other: null, go };
    render(page(report, screen), root);
  };
  const go = (patch: Partial<Address>): void => {
    address = { ...address, ...patch };
    history.replaceState(null, "", format_address(address));
    draw();
  };
  const live = live_of(report, draw, (of) => go({ of, view: "", cell: "", token: -1, also: "", key: -1 }));
  // On paper the colours are the light ones, whatever the screen has.
  const print_all = (all: boolean) => () => {
    printing = all;
    document.documentElement.toggleAttribute("data-printing", all);
    recolor();
  };
  const recolor = (): void => {
    colors = read_colors();
    draw();
  };
  addEventListener("hashchange", () => {
    address = parse_address(location.hash);
    draw();
  });
  addEventListener("beforeprint", print_all(true));
  addEventListener("afterprint", print_all(false));
  for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
    matchMedia(query).addEventListener("change", recolor);
  }
  if (live) {
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => {
      event.preventDefault();
      if (event.dataTransfer) void dropped_files(event.dataTransfer).then((files) => live.open_files(files));
    });
  }
  narrow.addEventListener("change", draw);
  draw();
}

fold_tables();
try {
  start(read_report(document.getElementById("data")?.textContent ?? ""));
} catch (error) {
  if (!(error instanceof Fault)) throw error;
  render(failed_page(document.title, error.message), root);
}
