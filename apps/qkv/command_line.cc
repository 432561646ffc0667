// Declares commands to the library that reads the command line, checks values, and rewords what is wrong.
#include "command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "core/counted.h"
#include "core/refuse.h"
#include "io/files/files.h"
#include "notes.h"
#include "surroundings.h"

namespace qkv::app {
namespace {

template <class Integer>
std::optional<Integer> parse(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// NaN if the text is no number.
double parse_number(const std::string& text) {
  char* end = nullptr;
  const auto value = static_cast<double>(std::strtold(text.c_str(), &end));
  return !text.empty() && end == text.data() + text.size() ? value : std::nan("");
}

bool takes_whole_numbers(const Value& value) {
  const auto holds = [&]<class... Kinds>(std::tuple<Kinds...>) {
    return (std::holds_alternative<Kinds>(value.variable) || ...);
  };
  return holds(std::tuple<std::int64_t*, std::uint64_t*, std::optional<std::int64_t>*, std::vector<std::int64_t>*>());
}

// CLI11 reads 010 as 8 and 0x3 as 3: it is given whole numbers without zeros before them, and no others.
void take_decimals(CLI::Option& option, const Check& check) {
  if (!check) {
    option.check([](const std::string& text) {
      return parse<std::int64_t>(text) ? "" : fmt::format("\"{}\" must be a whole number", text);
    });
  }
  option.transform([](const std::string& text) {
    if (const auto value = parse<std::int64_t>(text)) return fmt::format("{}", *value);
    const auto large = parse<std::uint64_t>(text);
    return large ? fmt::format("{}", *large) : text;
  });
}

// The options of a command among these, in the order in which it has them: CLI11 keeps them by their addresses.
std::vector<const CLI::Option*> in_order(const CLI::App& command, const std::set<CLI::Option*>& some) {
  return command.get_options([&](const CLI::Option* option) { return std::ranges::count(some, option) > 0; });
}

std::string about(const CLI::Option& one, const char* rule, const CLI::Option& other) {
  return one.get_name() + rule + other.get_name();
}

// Help as help.h has it, which CLI11 asks for.
class Formatter : public CLI::FormatterBase {
 public:
  explicit Formatter(const Command& command) : command_(command) {}

  std::string make_help(const CLI::App*, std::string, CLI::AppFormatMode) const override {
    constexpr std::int64_t kUsual = 80;
    return help_text(command_.help(), columns_of_output(kUsual));
  }

 private:
  const Command& command_;
};

CLI::Option* declare(CLI::App& app, const Option& option) {
  const auto with = [&](const auto& variable) -> CLI::Option* {
    using Variable = std::decay_t<decltype(variable)>;
    if constexpr (std::is_same_v<Variable, bool*>) {
      return app.add_flag(option.name, *variable, option.help);
    } else if constexpr (std::is_same_v<Variable, std::function<void()>>) {
      return app.add_flag_callback(option.name, variable, option.help);
    } else if constexpr (std::is_same_v<Variable, Check>) {
      const auto take = [name = option.name, variable](const std::string& text) {
        if (const std::string wrong = variable(text); !wrong.empty()) throw UsageError(name, wrong);
      };
      return app.add_option_function<std::string>(option.name, take, option.help);
    } else {
      return app.add_option(option.name, *variable, option.help);
    }
  };
  const Value& value = option.value;
  CLI::Option* declared = std::visit(with, value.variable);
  if (!value.type.empty()) declared->type_name(value.type);
  if (value.check) declared->check(value.check);
  if (value.delimiter != 0) declared->delimiter(value.delimiter);
  if (value.count > 0) declared->expected(value.count);
  if (!value.takes_words) declared->allow_extra_args(false);
  if (takes_whole_numbers(value)) take_decimals(*declared, value.check);
  if (option.rules.repeated) declared->take_all();
  return declared->required(option.rules.required);
}

std::string full_name(const CLI::App& command) {
  return command.get_parent() == nullptr ? command.get_name()
                                         : full_name(*command.get_parent()) + " " + command.get_name();
}

OptionHelp help_of(const CLI::App& command, const CLI::Option& option) {
  OptionHelp help;
  for (std::string names = option.get_name(option.get_positional(), true); !names.empty();) {
    const std::size_t end = std::min(names.find(','), names.size());
    help.names.push_back(names.substr(0, end));
    names.erase(0, end + 1);
  }
  const bool takes_value = option.get_items_expected_max() > 0;
  if (takes_value) help.type = option.get_type_name();
  help.several = option.get_expected_max() >= CLI::detail::expected_max_vector_size && option.get_allow_extra_args();
  help.repeated = takes_value && option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  help.required = option.get_required();
  help.text = option.get_description();
  for (const CLI::Option* other : in_order(command, option.get_needs())) help.needs.push_back(other->get_name());
  for (const CLI::Option* other : in_order(command, option.get_excludes())) help.excludes.push_back(other->get_name());
  return help;
}

// The innermost command that was named.
CLI::App& named(CLI::App& command) {
  const auto named_here = command.get_subcommands();
  return named_here.empty() ? command : named(*named_here.back());
}

std::vector<std::string> names_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* inner : command.get_subcommands({})) names.push_back(inner->get_name());
  return names;
}

std::string about_unknown(const CLI::App& command, const std::string& word) {
  const bool is_option = word.starts_with("-");
  std::vector<std::string> names = names_of(command);
  const bool has_commands = !names.empty();
  if (is_option) {
    names.clear();
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  const std::string_view name = std::string_view(word).substr(0, word.find('=')), meant = closest(name, names);
  return fmt::format("{} \"{}\"{}",
                     is_option      ? "unknown option"
                     : has_commands ? "unknown subcommand"
                                    : "unexpected argument",
                     word,
                     meant.empty()   ? ""
                     : meant == name ? "; options follow the command"
                                     : fmt::format("; did you mean {}?", meant));
}

// CLI11: "--scale: 1 required X missing", "--scale: At Most 1 required but received 2".
std::string about_count(const CLI::Option& option, const std::string& name, std::string_view message) {
  if (message.ends_with(" missing")) return fmt::format("{} needs {}", name, option.get_type_name());
  const int count = option.get_items_expected_max();
  return fmt::format("{} takes {}, got {}", name, counted(count, "value"), message.substr(message.rfind(' ') + 1));
}

std::string reworded(const CLI::App& command, const CLI::ParseError& error) {
  constexpr std::string_view kCouldNot = "Could not convert: ", kEquals = " = ";
  const std::string message = error.what();
  const auto option = [&](const std::string& name) { return command.get_option_no_throw(name); };
  if (error.get_name() == "ArgumentMismatch") {
    const std::string name = message.substr(0, message.find(':'));
    if (option(name) != nullptr) return about_count(*option(name), name, message);
  }
  if (error.get_name() == "ConversionError" && message.starts_with(kCouldNot)) {
    const std::size_t begin = kCouldNot.size(), end = message.find(kEquals);
    const std::string name = message.substr(begin, end - begin), value = message.substr(end + kEquals.size());
    if (option(name) != nullptr && option(name)->get_items_expected_max() == 0) return name + " takes no value";
    if (option(name) != nullptr)
      return fmt::format("{}: \"{}\" must be {}", name, value, option(name)->get_type_name());
  }
  if (const CLI::Option* found = option(message.substr(0, message.find(' ')))) {
    for (const CLI::Option* other : in_order(command, found->get_needs())) {
      if (error.get_name() == "RequiresError" && other->count() == 0) return about(*found, " requires ", *other);
    }
    for (const CLI::Option* other : in_order(command, found->get_excludes())) {
      if (error.get_name() == "ExcludesError" && other->count() > 0) {
        return about(*found, " cannot be combined with ", *other);
      }
    }
  }
  return message;
}

}  // namespace

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=.,:/@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

Value file(std::string& path, const char* type) { return {&path, type, check_file_name}; }

Value output_file(std::string& path, const std::vector<std::string>& endings) {
  const auto check = [endings](const std::string& text) {
    const bool fits =
        std::ranges::any_of(endings, [&](const std::string& ending) { return io::has_ending(text, ending); });
    const std::string wrong = check_file_name(text);
    return fits || !wrong.empty() ? wrong : fmt::format("\"{}\" must end in {}", text, fmt::join(endings, ", "));
  };
  return {&path, "FILE", check};
}

std::string check_file_name(const std::string& text) {
  const bool fits = !text.empty() && !text.starts_with('-');
  return fits ? "" : fmt::format("\"{}\" must be the name of a file (./-x if that is its name)", text);
}

Check whole_number(std::int64_t least, std::int64_t largest) {
  return [least, largest](const std::string& text) {
    const std::optional<std::int64_t> value = parse<std::int64_t>(text);
    const bool fits = value && *value >= least && *value <= largest;
    return fits ? "" : fmt::format("\"{}\" must be a whole number from {} to {}", text, least, largest);
  };
}

Value seed(std::uint64_t& variable) {
  const auto check = [](const std::string& text) {
    return parse<std::uint64_t>(text) ? "" : fmt::format("\"{}\" must be a whole number from 0 to 2^64 - 1", text);
  };
  return {&variable, "N", check};
}

std::string message_of(const std::invalid_argument& error) {
  const auto* refusal = dynamic_cast<const Refusal*>(&error);
  return refusal == nullptr ? error.what() : refusal->text();
}

Check finite_number(double least) {
  return [least](const std::string& text) {
    const double value = parse_number(text);
    if (std::isfinite(value) && value >= least) return std::string();
    return fmt::format("\"{}\" must be a finite number{}", text,
                       least > std::numeric_limits<double>::lowest() ? fmt::format(", {} or above", least) : "");
  };
}

Value probability(double& variable) {
  const auto check = [](const std::string& text) {
    const double p = parse_number(text);
    return p >= 0 && p <= 1 ? "" : fmt::format("\"{}\" must be a number from 0 to 1", text);
  };
  return {&variable, "P", check};
}

Value positive(double& variable, const char* type, double most) {
  const auto check = [most](const std::string& text) {
    const double value = parse_number(text);
    if (value > 0 && value <= most) return std::string();
    const bool bounded = most < std::numeric_limits<double>::max();
    return fmt::format("\"{}\" must be a number above 0{}", text, bounded ? fmt::format(", at most {}", most) : "");
  };
  return {&variable, type, check};
}

std::optional<std::int64_t> parse_whole(std::string_view text) { return parse<std::int64_t>(text); }

std::vector<std::int64_t> parse_wholes(std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto number = parse_whole(text.substr(begin, end - begin));
    if (!number) return {};
    numbers.push_back(*number);
    begin = end + 1;
  }
  return numbers;
}

Command& Command::add_command(const std::string& name, const std::string& help) {
  app_.require_subcommand(1);
  return *commands_.emplace_back(new Command(*app_.add_subcommand(name, help), line_));
}

void Command::add(const std::vector<Option>& options) {
  options_.insert(options_.end(), options.begin(), options.end());
}

void Command::add_examples(const std::vector<Example>& examples) { examples_ = examples; }

void Command::add_footer(const std::string& text) { app_.footer(text); }

void Command::on_run(const std::function<void()>& run) { app_.callback(run); }

bool Command::given(const std::string& option) const { return app_.count(option) > 0; }

std::vector<std::string> Command::given() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : std::as_const(app_).get_options()) {
    if (option->count() > 0) names.push_back(option->get_name());
  }
  return names;
}

CommandHelp Command::help() const {
  CommandHelp help{.line = full_name(app_),
                   .text = app_.get_description(),
                   .footer = app_.get_footer(),
                   .examples = examples_,
                   .options = {},
                   .commands = {}};
  for (const CLI::Option* option : std::as_const(app_).get_options()) help.options.push_back(help_of(app_, *option));
  for (const auto& inner : commands_) help.commands.push_back(inner->help());
  return help;
}

// All at once, as rules may name what is added later. CLI11 shows them in the order in which it was given the options.
void Command::declare(const std::string& version) {
  std::vector<CLI::Option*> all;
  for (const Option& option : options_) all.push_back(app::declare(app_, option));
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const std::string& name : options_[i].rules.needs) all[i]->needs(app_.get_option(name));
    for (const std::string& name : options_[i].rules.excludes) all[i]->excludes(app_.get_option(name));
  }
  app_.formatter(std::make_shared<Formatter>(*this));
  app_.set_version_flag("--version", version, "Print the version and exit");
  if (commands_.empty()) app_.add_flag_callback("--quiet", be_quiet, "No notes and no progress on standard error");
  for (const auto& command : commands_) command->declare(version);
}

Program::Program(const std::string& name, const std::string& help)
    : app_(std::make_unique<CLI::App>(help, name)), commands_(*app_, std::make_shared<std::string>(name)) {}

Program::~Program() = default;

void Program::run(int argc, char** argv, const std::string& version, const std::function<void()>& check) {
  commands_.declare(version);
  for (int i = 1; i < argc; ++i) *commands_.line_ += " " + shell_word(argv[i]);
  app_->parse_complete_callback(check);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& success) {
    app_->exit(success);  // --help or --version, on standard output
  } catch (const CLI::ParseError& error) {
    const CLI::App& command = named(*app_);
    const auto extras = app_->remaining(true);
    if (extras.empty() && command.get_require_subcommand_min() > 0) {
      throw UsageError(fmt::format("name a command: {}", fmt::join(names_of(command), ", ")));
    }
    // CLI11 reports what is missing before what is unexpected, and all that is unexpected backwards.
    const bool surplus =
        error.get_name() == "RequiredError" || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    throw UsageError(surplus && !extras.empty() ? about_unknown(command, extras.front()) : reworded(command, error));
  }
}

std::string Program::named_command() const { return full_name(named(*app_)); }

}  // namespace qkv::app
