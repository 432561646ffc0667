import { html } from "lit-html";
import type { Head } from "./explanation";
import type { Screen, Shown } from "./screen";
export function head_view(_data: Head, _screen: Screen): Shown {
  return { body: html``, name: "x", tables: () => [], picture: () => null, options: "" };
}
