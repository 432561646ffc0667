// Text of the page, deflated and written as letters as src/explain/show/report_page.h says: src/packed.ts reads it.
import { deflateSync, strToU8 } from "fflate";

const kLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&,>()[]{}@%$#";

export function packed(text) {
  const bytes = deflateSync(strToU8(text), { level: 9, mem: 12 });
  let letters = "";
  for (let i = 0; i < bytes.length; i += 4) {
    const count = Math.min(4, bytes.length - i);
    let four = 0;
    for (let k = 0; k < 4; ++k) four = 256 * four + (bytes[i + k] ?? 0);
    let group = "";
    for (let k = 0; k < 5; ++k, four = Math.floor(four / 85)) group = kLetters[four % 85] + group;
    letters += group.slice(0, count + 1);
  }
  return letters;
}
