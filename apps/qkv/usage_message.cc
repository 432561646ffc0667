// OrderedSums errors of the command line's parser into one line.
#include "usage_message.h"

#include <fmt/format.h>

#include <string_view>

namespace qkv::app {
namespace {

std::string about_unknown(const CLI::App& command, const std::string& word) {
  const bool has_subcommands = command.get_require_subcommand_min() > 0;
  return fmt::format("{} \"{}\"",
                     word.starts_with("-") ? "unknown option"
                     : has_subcommands     ? "unknown subcommand"
                                           : "unexpected argument",
                     word);
}

// CLI11: "--scale: 1 required X missing", "--scale: At Most 1 required but received 2".
std::string about_count(const CLI::Option& option, const std::string& name, std::string_view message) {
  if (message.ends_with(" missing")) return fmt::format("{} needs {}", name, option.get_type_name());
  const int count = option.get_items_expected_max();
  return fmt::format("{} takes {} value{}, got {}", name, count, count == 1 ? "" : "s",
                     message.substr(message.rfind(' ') + 1));
}

std::string reworded(const CLI::App& command, const CLI::ParseError& error) {
  constexpr std::string_view kCouldNot = "Could not convert: ", kEquals = " = ", kExcludes = " excludes ",
                             kColon = ": ";
  const std::string message = error.what();
  const auto option = [&](const std::string& name) { return command.get_option_no_throw(name); };
  const bool surplus = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;  // its name is that of the command
  if (surplus && message.find(kColon) != std::string::npos) {
    return about_unknown(command, message.substr(message.find(kColon) + kColon.size()));
  }
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
  if (const std::size_t at = message.find(kExcludes); error.get_name() == "ExcludesError" && at != std::string::npos) {
    return message.substr(0, at) + " cannot be combined with " + message.substr(at + kExcludes.size());
  }
  return message;
}

}  // namespace

std::string full_name(const CLI::App& command) {
  return command.get_parent() == nullptr ? command.get_name()
                                         : full_name(*command.get_parent()) + " " + command.get_name();
}

std::string usage_message(const CLI::App& program, const CLI::App& command, const CLI::ParseError& error) {
  // CLI11 reports what is missing before what is unexpected.
  const auto extras = program.remaining(true);
  const std::string message = error.get_name() == "RequiredError" && !extras.empty()
                                  ? about_unknown(command, extras.front())
                                  : reworded(command, error);
  return fmt::format("{} (see {} --help)", message, full_name(command));
}

}  // namespace qkv::app
