// The command line: commands, and for each a table of its options. The library that reads it is known to
// command_line.cc alone, which rewords its errors, a line each.
//
//   Command& embed = program.add_command("embed", "Embeddings of sentences");
//   embed.add({{"--model", file(request.model), "Folder of the model", required()},
//              {"--json", flag(request.json), "Write JSON"}});
//   embed.on_run([&request] { ... });
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "help.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace qkv::app {

// A command line that cannot be meant: UsageError("--window", "3 must be two numbers, LEFT,RIGHT"). Exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  UsageError(const std::string& option, const std::string& message) : runtime_error(option + ": " + message) {}
};

// What the library refuses, without the name of its function: that of the command, or of an option, stands there
// instead.
std::string message_of(const std::invalid_argument& error);

// Returns the result of `call`; std::invalid_argument becomes a UsageError of the option.
template <class Call>
auto of_option(const std::string& option, const Call& call) {
  try {
    return call();
  } catch (const std::invalid_argument& error) {
    throw UsageError(option, message_of(error));
  }
}

// Why a value is invalid; empty: it is valid.
using Check = std::function<std::string(const std::string&)>;

// The value of an option: its variable, its name in the help, and its rules. The usual ones are below.
struct Value {
  // A flag's bool or function; a number, a text or a list of them; or a function that takes the value if it fits.
  using Variable = std::variant<bool*, std::function<void()>, std::int64_t*, std::uint64_t*, double*, std::string*,
                                std::optional<std::int64_t>*, std::optional<double>*, std::optional<std::string>*,
                                std::vector<std::int64_t>*, std::vector<std::string>*, Check>;

  Variable variable;
  // In lower case what may be given itself, "f32|f64"; in capitals what stands for it: FILE and FOLDER are completed.
  std::string type{};
  Check check{};

  // Options of a list.
  char delimiter = 0;       // that may separate values, as a space does
  int count = 0;            // of values; 0: one or more
  bool takes_words = true;  // the next words are values too, up to an option
};

inline Value flag(bool& given) { return {&given}; }
inline Value flag(const std::function<void()>& on_given) { return {on_given}; }

// Any text; lists have a text or a number for each word.
template <class Text>
Value text(Text& variable, const char* type) {
  return {&variable, type};
}
template <class Item>
Value comma_list(std::vector<Item>& variable, const char* type) {
  return {.variable = &variable, .type = type, .delimiter = ','};
}

// The name of a file: not empty, and no other option taken for it.
Value file(std::string& path, const char* type = "FILE");
// A file to be written, whose name ends in one of these.
Value output_file(std::string& path, const std::vector<std::string>& endings);
std::string check_file_name(const std::string& text);

Check whole_number(std::int64_t least, std::int64_t largest);
template <class Integer>
Value whole(Integer& variable, std::int64_t least, std::int64_t largest) {
  return {&variable, "N", whole_number(least, largest)};
}
// At least 1.
template <class Integer>
Value size(Integer& variable, std::int64_t largest = std::int64_t{1} << 40) {
  return whole(variable, 1, largest);
}
// 0 to 2^64 - 1.
Value seed(std::uint64_t& variable);

// NaN and infinities are refused.
Check finite_number(double least);
template <class Number>
Value finite(Number& variable, const char* type, double least = std::numeric_limits<double>::lowest()) {
  return {&variable, type, finite_number(least)};
}
Value probability(double& variable);
// Above 0, finite, and at most this.
Value positive(double& variable, const char* type, double most = std::numeric_limits<double>::max());

// One of a few names.
template <class Choice>
using Names = std::vector<std::pair<std::string, Choice>>;
template <class Variable, class Choice>
Value choice(Variable& variable, const Names<Choice>& choices) {
  std::string names;
  for (const auto& [name, value] : choices) names += (names.empty() ? "" : "|") + name;
  const auto take = [&variable, choices, names](const std::string& text) {
    for (const auto& [name, value] : choices) {
      if (name != text) continue;
      variable = value;
      return std::string();
    }
    return "\"" + text + "\" must be one of " + names;
  };
  return {Check(take), names};
}

// How an option goes with others, by their names.
struct Rules {
  bool required = false;
  bool repeated = false;  // a list that may be given again, for more values
  std::vector<std::string> needs{}, excludes{};
};
inline Rules required() { return {.required = true}; }
inline Rules repeated() { return {.repeated = true}; }
template <class... Names>
Rules needs(Names... names) {
  return {.needs = {std::string(names)...}};
}
template <class... Names>
Rules excludes(Names... names) {
  return {.excludes = {std::string(names)...}};
}
inline Rules operator&(const Rules& a, const Rules& b) {
  return {a.required || b.required, a.repeated || b.repeated, a.needs.empty() ? b.needs : a.needs,
          a.excludes.empty() ? b.excludes : a.excludes};
}

struct Option {
  std::string name;  // "--beams,--beam"; "text" takes the words that belong to no option
  Value value;
  std::string help;
  Rules rules{};
};

// In quotes, if a shell would read something else in it.
std::string shell_word(const std::string& word);

// All of the text as a number.
std::optional<std::int64_t> parse_whole(std::string_view text);
// The numbers of "3,5,7"; none if one of them is not a number.
std::vector<std::int64_t> parse_wholes(std::string_view text);

class Command {
 public:
  Command(const Command&) = delete;

  // One of a group of commands: of these, one must be named.
  Command& add_command(const std::string& name, const std::string& help);
  void add(const std::vector<Option>& options);
  void add_examples(const std::vector<Example>& examples);
  void add_footer(const std::string& text);
  void on_run(const std::function<void()>& run);

  // Once the command line is read: whether this option was given, and the names of all that were.
  bool given(const std::string& option) const;
  std::vector<std::string> given() const;
  // The whole command line as a shell reads it: qkv explain --text 'You are welcome'.
  const std::string& line() const { return *line_; }
  // The help of this command and its subcommands.
  CommandHelp help() const;

 private:
  friend class Program;
  Command(CLI::App& app, const std::shared_ptr<std::string>& line) : app_(app), line_(line) {}
  void declare(const std::string& version);

  CLI::App& app_;
  std::shared_ptr<std::string> line_;  // one of all commands
  std::vector<std::unique_ptr<Command>> commands_{};
  std::vector<Example> examples_{};
  std::deque<Option> options_{};
};

class Program {
 public:
  Program(const std::string& name, const std::string& help);
  ~Program();

  Command& commands() { return commands_; }

  // Reads the command line and runs its command, `check` before it; or prints help or the version. UsageError for one
  // that is wrong.
  void run(int argc, char** argv, const std::string& version, const std::function<void()>& check);

  // The innermost command that was named: "qkv bench attention".
  std::string named_command() const;

 private:
  std::unique_ptr<CLI::App> app_;
  Command commands_;
};

}  // namespace qkv::app
