// The command that shows one head, from the one that wrote the report.

// A word as a shell takes it.
export const quoted = (word: string): string => (/^[\w\-+=.,:/@%]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`);

// As options name an attention: a model with one alone has no name for it.
export const site_option = (name: string): string => name.replaceAll("_", "-");

// Without what is for all heads: what is kept of them, and a run of all heads beside this one.
function for_one_head(report: string): string {
  const words = report.match(/(?:'[^']*'|\\.|[^\s'\\])+/g) ?? [];
  const takes_word = /^--(keep|keep-rows|compare)$/;
  return words
    .filter((word, i) => !/^--(weights$|(keep|keep-rows|compare)(=|$))/.test(word) && !takes_word.test(words[i - 1] ?? ""))
    .join(" ");
}

// The option of its model; empty: it has none.
export const model_of = (report: string): string => / --model (?:'(?:[^']|'\\'')*'|\S+)/.exec(report)?.[0] ?? "";

// What the page had the engine run, as a terminal takes it: of the report's model if of none of the reader's, files and
// folders of the reader's where the terminal is. That weights are kept is for the page.
export function command_line(given: readonly string[], report: string): string {
  const words = given
    .filter((word) => word !== "--weights")
    .map((word) => quoted(word.replace(/(^|=)\/(?:dropped|model)-\d+\//, "$1")));
  const [command, ...options] = words;
  const model = given.includes("--text") && !given.includes("--model") ? model_of(report) : "";
  return [`qkv ${command}${model}`, ...options].join(" ");
}

// Of `qkv explain` with these options; a translation is explained by its source text.
export function command_with(report: string, options: string, source: string): string {
  if (report.startsWith("qkv explain")) return for_one_head(report) + options;
  if (source === "") return report;
  return `qkv explain${model_of(report)} --text ${quoted(source)}${options}`;
}
