// The command that shows one head, from the one that wrote the report.

// A word as a shell takes it.
export const quoted = (word: string): string => (/^[\w\-+=.,:/@%]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`);

// As options name an attention: a model with one alone has no name for it.
export const site_option = (name: string): string => name.replaceAll("_", "-");

// Of `qkv explain` with these options; a translation is explained by its source text.
export function command_with(report: string, options: string, source: string): string {
  if (report.startsWith("qkv explain")) return report + options;
  if (source === "") return report;
  const model = / --model (?:'(?:[^']|'\\'')*'|\S+)/.exec(report)?.[0] ?? "";
  return `qkv explain${model} --text ${quoted(source)}${options}`;
}
