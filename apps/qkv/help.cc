// Groups options, finds the name that was meant, and wraps the help of a command.
#include "help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "attention/options/mask_kinds.h"
#include "io/wrap.h"

namespace qkv::app {

std::string OptionHelp::about() const {
  std::string rules;
  if (required) rules += " Required.";
  if (!needs.empty()) rules += fmt::format(" Needs {}.", fmt::join(needs, ", "));
  if (!excludes.empty()) rules += fmt::format(" Not with {}.", fmt::join(excludes, ", "));
  return text + (text.ends_with('.') || rules.empty() ? "" : ".") + rules;
}

bool CommandHelp::has(std::string_view option) const {
  const auto names_it = [&](const OptionHelp& one) { return std::ranges::count(one.names, option) > 0; };
  return std::ranges::any_of(options, names_it) ||
         std::ranges::any_of(commands, [&](const CommandHelp& inner) { return inner.has(option); });
}

namespace {

struct GroupNames {
  std::string_view title;
  std::vector<std::string_view> names;
};

constexpr std::string_view kInput = "Input", kMask = "Mask, bias and score", kOutput = "Output";

// Options that no group names are input. With a type a name stands for an option of this type alone.
const std::vector<GroupNames>& group_names() {
  static const std::vector<GroupNames> all = {
      {kInput, {}},
      {"Model", {"--model",        "--weights",     "--tokenizer", "--layer",   "--head",    "--attention", "--token",
                 "--without-head", "--without-key", "--config",    "--from",    "--w-embed", "--w-query",   "--w-key",
                 "--w-value",      "--b-query",     "--b-key",     "--b-value", "--w-out",   "--b-out",     "--init"}},
      {kMask,
       {"--align",    "--mask",          "--bias",        "--alibi",      "--sinks",           "--clipped-table",
        "--t5-table", "--swin-table",    "--swin-window", "--shaw-table", "--t5-max-distance", "--t5-bidirectional",
        "--score",    "--score-w-query", "--score-w-key", "--score-v",    "--score-w",         "--scale",
        "--soft-cap", "--empty-rows"}},
      {"Search and sampling",
       {"--beams", "--length-penalty", "--max-length", "--max-new-tokens", "--sample", "--temperature", "--top-k",
        "--top-p", "--min-p", "--greedy", "--repetition-penalty", "--stop"}},
      {kOutput,
       {"--out",
        "--json",
        "--html",
        "--compare",
        "--svg",
        "--step",
        "--full",
        "--heat",
        "--width",
        "--keep",
        "--keep-rows",
        "--top",
        "--blocks",
        "--rows",
        "--nbest",
        "--explain",
        "--score FILE",
        "--heads LAYER.HEAD",
        "--outputs",
        "--quiet",
        "--second-grad-key",
        "--second-grad-value",
        "--second-grad-out"}},
      {"Advanced",
       {"--precision", "--threads", "--memory-limit", "--verify", "--dtype", "--dropout", "--seed", "--exact-text",
        "--replace-invalid", "--offsets-query", "--offsets-key", "--block-table", "--chunk", "--help", "--version"}}};
  return all;
}

bool is_of_mask(std::string_view option) {
  return std::ranges::any_of(mask_kinds(), [&](const MaskDescription& kind) {
    const std::string name = fmt::format("--{}", kind.name);
    return option == name || option == name + "-key";
  });
}

std::string_view group_of(const OptionHelp& option) {
  if (option.text.starts_with("output: ")) return kOutput;
  if (std::ranges::any_of(option.names, is_of_mask)) return kMask;
  for (const std::string& type : {" " + option.type, std::string()}) {
    for (const auto& [title, names] : group_names()) {
      for (const std::string& name : option.names) {
        if (std::ranges::count(names, name + type) > 0) return title;
      }
    }
  }
  return kInput;
}

}  // namespace

std::string value_of(const OptionHelp& option, const Marks& marks) {
  if (option.type.empty()) return "";
  return " " + marks.value(option.type) + (option.several ? " ..." : "");
}

std::string usage(const CommandHelp& command, const Marks& marks) {
  std::string text = marks.name(command.line);
  if (!command.commands.empty()) text += " " + marks.value("COMMAND");
  for (const OptionHelp& option : command.options) {
    if (option.required && !option.is_positional()) {
      text += " " + marks.name(option.names.front()) + value_of(option, marks);
    }
  }
  text += " [" + marks.value("OPTIONS") + "]";
  for (const OptionHelp& option : command.options) {
    if (!option.is_positional()) continue;
    const std::string words = marks.value(option.names.front()) + (option.several ? " ..." : "");
    text += option.required ? " " + words : " [" + words + "]";
  }
  return text;
}

std::vector<OptionGroup> grouped(const std::vector<OptionHelp>& options) {
  std::vector<OptionGroup> groups;
  for (const GroupNames& group : group_names()) {
    OptionGroup one{.title = group.title, .options = {}};
    std::ranges::copy_if(options, std::back_inserter(one.options),
                         [&](const OptionHelp& option) { return group_of(option) == group.title; });
    if (!one.options.empty()) groups.push_back(std::move(one));
  }
  return groups;
}

std::span<const Meaning> environment_variables() {
  static constexpr Meaning kAll[] = {
      {"QKV_TARGET", "CPU target of the kernels, one of those in `qkv info` (default: the best one)"},
      {"QKV_THREADS",
       "default number of threads of a call; overrides `OMP_NUM_THREADS` and the number of processors that this "
       "process may use (affinity and control-group limits)",
       "--threads"},
      {"QKV_MODEL", "folder of the English-Spanish model for commands without `--model`", "--model"},
      {"QKV_LANGUAGE_MODEL", "folder of the language model for `qkv generate` without `--model`", "--model"},
      {"HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME", "where `--model ORG/NAME` looks for models downloaded by other tools",
       "--model"},
      {"NO_COLOR, TERM, COLORTERM", "whether and how the terminal shows colours"},
      {"COLUMNS",
       "width of wrapped text, in a pipe too (default: the width of the terminal; without one, 80 columns for help and "
       "98 for explanations)"}};
  return kAll;
}

std::span<const Meaning> files_of_program() {
  static constexpr Meaning kAll[] = {
      {"share/qkv/models/en-es", "next to the program's folder: the English-Spanish model", "--model"},
      {"share/qkv/models/verses", "likewise: the language model of `qkv generate`", "--model"},
      {"share/qkv/phrases.es.tsv", "likewise: the phrases of `qkv compare`", "--tasks"},
      {"~/.cache/huggingface/hub", "models downloaded by other tools, for --model ORG/NAME; see ENVIRONMENT",
       "--model"}};
  return kAll;
}

std::span<const Meaning> exit_codes() {
  static constexpr Meaning kAll[] = {
      {"0", "success; all output was written"},
      {"1", "internal error of qkv: please report it"},
      {"2",
       "invalid command line or environment: an unknown option, options that exclude each other, a value that does "
       "not fit the other options, the text or the model (a head that does not exist, a memory limit that is too "
       "low), a bad `QKV_TARGET`"},
      {"3", "invalid data: a malformed file, arrays whose shapes do not match, a loss that is not a number"},
      {"4",
       "system error: a file that cannot be read or written, a full disk, a limit of `ulimit -f`, too little memory, a "
       "mapped file that is cut short"},
      {"5", "`qkv certify`: results on this machine differ from the arithmetic, or from the given certificate",
       "--expect"},
      {"130", "Ctrl-C (SIGINT)"},
      {"143", "SIGTERM"},
      {"152", "processor time limit (`ulimit -S -t`) reached (SIGXCPU)"}};
  return kAll;
}

namespace {

// How many characters must be put in, left out, replaced or swapped with their neighbour.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), next(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({last[j] + 1, next[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before = std::exchange(last, next);
  }
  return last.back();
}

}  // namespace

std::string_view closest(std::string_view word, std::span<const std::string> names) {
  std::string_view found;
  std::size_t least = word.size() / 3 + 1;  // so many are no slip
  for (const std::string& name : names) {
    if (const std::size_t changes = distance(word, name); changes < least) least = changes, found = name;
  }
  return found;
}

namespace {

class HelpText {
 public:
  explicit HelpText(std::int64_t width) : width_(static_cast<std::size_t>(width)) {}

  void heading(std::string_view title) { text_ += fmt::format("\n{}:\n", title); }
  void paragraph(const std::string& text, std::size_t indent = 0) {
    for (const std::string& line : wrapped(text, width_ - std::min(width_ / 2, indent))) {
      text_ += std::string(line.empty() ? 0 : indent, ' ') + line + "\n";
    }
  }
  // Not wrapped: it is there to be copied.
  void example(const std::string& line) { text_ += "    " + line + "\n"; }
  // A term and its meaning, side by side, or below each other if there is no room.
  void item(const std::string& term, const std::string& text) {
    constexpr std::size_t kColumn = 26;
    const bool has_room = width_ >= 2 * kColumn + 8;
    const std::size_t before = text_.size();
    paragraph(text, has_room ? kColumn : 6);
    const bool is_beside = has_room && term.size() + 4 <= kColumn;
    is_beside ? text_.replace(before, term.size() + 2, "  " + term) : text_.insert(before, "  " + term + "\n");
  }
  std::string take() { return std::move(text_); }

 private:
  std::size_t width_;
  std::string text_;
};

std::string plain(std::string_view text) { return std::string(text); }

}  // namespace

std::string help_text(const CommandHelp& command, std::int64_t width) {
  HelpText help(width);
  const Marks marks{plain, plain};
  help.paragraph("Usage: " + usage(command, marks));
  help.paragraph("\n" + command.text);
  if (!command.examples.empty()) help.heading("Examples");
  for (const Example& example : command.examples) {
    help.paragraph(example.what, 2);
    help.example(example.line);
  }
  if (!command.commands.empty()) help.heading("Commands");
  for (const CommandHelp& inner : command.commands) help.item(inner.word(), inner.text);
  for (const OptionGroup& group : grouped(command.options)) {
    help.heading(group.title);
    for (const OptionHelp& option : group.options) {
      help.item(fmt::format("{}{}", fmt::join(option.names, ","), value_of(option, marks)), option.about());
    }
  }
  if (!command.footer.empty()) help.paragraph("\n" + command.footer);
  return help.take();
}

}  // namespace qkv::app
