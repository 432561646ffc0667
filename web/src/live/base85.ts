// The bytes of the files that a page holds: src/explain/show/report_page.h says how they are written.
const kLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&,>()[]{}@%$#";
const kLargest = kLetters.length - 1;

export function bytes_of(text: string): Uint8Array<ArrayBuffer> {
  const values = new Uint8Array(128);
  for (let i = 0; i <= kLargest; ++i) values[kLetters.charCodeAt(i)] = i;
  const bytes = new Uint8Array(Math.floor((text.length * 4) / 5));
  for (let i = 0, at = 0; i < text.length; i += 5, at += 4) {
    let four = 0;
    for (let k = 0; k < 5; ++k) four = 85 * four + (i + k < text.length ? (values[text.charCodeAt(i + k)] ?? 0) : kLargest);
    for (let k = 0; k < 4 && at + k < bytes.length; ++k) bytes[at + k] = Math.floor(four / 256 ** (3 - k)) % 256;
  }
  return bytes;
}
