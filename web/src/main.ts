// Reads the data of the page, draws the view that its address names, and follows the address.
import { html, render } from "lit-html";
import { type Address, format_address, parse_address } from "./address";
import { Fault } from "./read/check";
import { read_colors } from "./colors";
import { read_report } from "./read/data";
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

// A page inside of another, as in a notebook, has no address of its own: its links would lead to the page around it.
const has_address = location.protocol !== "about:";

function start(report: Report): void {
  let address = parse_address(location.hash || report.start);
  const begins = location.hash === "" && report.start === "";
  const scheme = new URLSearchParams(report.start).get("scheme"); // whatever that of the screen is
  if (scheme) document.documentElement.dataset.scheme = scheme;
  let colors = read_colors();
  let printing = false;
  const narrow = matchMedia("(max-width: 560px)");

  const draw = (): void => {
    const screen: Screen = { address, colors, printing, narrow: narrow.matches, live, other: null, go };
    render(page(report, screen), root);
  };
  const go = (patch: Partial<Address>, lasting = true): void => {
    address = { ...address, ...patch };
    if (has_address && lasting) history.replaceState(null, "", format_address(address));
    live?.follow(address);
    draw();
  };
  const live = live_of(report, draw, go);
  if (live && begins) address.view = "start";
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
  const follow = (fragment: string): void => {
    address = parse_address(fragment);
    live?.follow(address);
    draw();
  };
  addEventListener("hashchange", () => follow(location.hash));
  if (!has_address) {
    addEventListener("click", (event) => {
      const link = (event.target as Element).closest?.("a")?.getAttribute("href");
      if (!link?.startsWith("#")) return;
      event.preventDefault();
      follow(link);
    });
  }
  addEventListener("beforeprint", print_all(true));
  addEventListener("afterprint", print_all(false));
  for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)", "(prefers-reduced-motion: reduce)"]) {
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
  live?.follow(address);
  draw();
}

fold_tables();
try {
  start(read_report(document.getElementById("data")?.textContent ?? ""));
} catch (error) {
  if (!(error instanceof Fault)) throw error;
  render(failed_page(document.title, error.message), root);
}
