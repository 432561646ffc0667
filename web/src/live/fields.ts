// The value of a field that the reader types into: what is drawn anew while it has the focus stays as it is.
import { noChange } from "lit-html";
import { live } from "lit-html/directives/live.js";

export const unless_typed = (id: string, value: string): unknown =>
  document.activeElement?.id === id ? noChange : live(value);
