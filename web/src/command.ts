// The command that shows one head, from the one that wrote the report.

// A word as a shell takes it.
export const quoted = (word: string): string => (/^[\w\-+=.,:/@%]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`);

// As options name an attention: a model with one alone has no name for it.
export const site_option = (name: string): string => name.replaceAll("_", "-");

// Without what is for all heads: which of them a report keeps.
function for_one_head(report: string): string {
  const words = report.match(/(?:'[^']*'|\\.|[^\s'\\])+/g) ?? [];
  return words.filter((word, i) => !/^--keep(-rows)?(=|$)/.test(word) && !/^--keep(-rows)?$/.test(words[i - 1] ?? "")).join(" ");
}

// Of `qkv explain` with these options; a translation is explained by its source text.
export function command_with(report: string, options: string, source: string): string {
  if (report.startsWith("qkv explain")) return for_one_head(report) + options;
  if (source === "") return report;
  const model = / --model (?:'(?:[^']|'\\'')*'|\S+)/.exec(report)?.[0] ?? "";
  return `qkv explain${model} --text ${quoted(source)}${options}`;
}
