// Keys of a config, each once: the reader, `--help` and the page of documentation go by one table.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/json/json_document.h"
#include "layers/basic/layer_checks.h"

namespace qkv::training {

inline constexpr std::int64_t kMaxLayers = 1024;
inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 40;
inline constexpr std::int64_t kMaxEpochs = 1'000'000;
inline constexpr const char* kRequired = "";
inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

struct KeyWords {
  std::string section, name;  // no section: at the top
  std::string type;           // "integer from 1"
  std::string unit;           // "tokens"; "-": none
  std::string otherwise;      // what it is where the config does not say, as JSON; empty: the config must say
  std::string meaning;
};

template <class Config>
struct ConfigKey : KeyWords {
  std::function<void(const io::JsonValue&, Config&)> read;
  std::function<std::string(const Config&)> show;  // the value of a config, as JSON
};

// Where a value is that is reached by one member after another.
template <class... Members>
auto path(Members... members) {
  return [=](auto& config) -> auto& { return (config.*....*members); };
}

// Makes keys; `field`, a member or a function, finds where the value goes in a config.
template <class Config>
struct KeysOf {
  struct Words {
    const char *section, *name, *unit;
    std::string meaning;
  };

  // The default is `otherwise`, or else what a config has before it is read.
  static ConfigKey<Config> key(const Words& words, std::string type, const char* otherwise,
                               std::function<void(const io::JsonValue&, Config&)> read,
                               std::function<std::string(const Config&)> show) {
    return {{.section = words.section,
             .name = words.name,
             .type = std::move(type),
             .unit = words.unit,
             .otherwise = otherwise != nullptr ? otherwise : show(Config()),
             .meaning = words.meaning},
            std::move(read),
            show};
  }

  // The result of `field` for a config: the variable of a key, and its value.
  template <class Field>
  using Value = std::remove_reference_t<std::invoke_result_t<Field, Config&>>;

  template <class Field>
  static Value<Field> value_in(Field field, Config config) {
    return std::invoke(field, config);
  }

  template <class Field>
  static ConfigKey<Config> integer(const Words& words, Field field, std::int64_t least, std::int64_t most = kMaxCount,
                                   const char* otherwise = nullptr) {
    return key(
        words, fmt::format("integer from {}", least), otherwise,
        [=](const io::JsonValue& value, Config& config) {
          std::invoke(field, config) = static_cast<Value<Field>>(value.integer(least, most));
        },
        [=](const Config& config) { return fmt::format("{}", value_in(field, config)); });
  }

  template <class Field>
  static ConfigKey<Config> size(const Words& words, Field field, const char* otherwise = nullptr) {
    return integer(words, field, 1, kMaxLayerSize, otherwise);
  }

  // In [0, below).
  template <class Field>
  static ConfigKey<Config> number(const Words& words, Field field, double below = kUnbounded,
                                  const char* otherwise = nullptr) {
    return key(
        words, below < kUnbounded ? fmt::format("number from 0 to below {}", below) : "number from 0", otherwise,
        [=](const io::JsonValue& value, Config& config) {
          const double number = value.number();
          if (!(number >= 0)) value.refuse("must be 0 or more");
          if (!(number < below)) value.refuse(fmt::format("must be below {}", below));
          std::invoke(field, config) = number;
        },
        [=](const Config& config) { return fmt::format("{}", value_in(field, config)); });
  }

  template <class Field>
  static ConfigKey<Config> choice(const Words& words, Field field,
                                  const std::vector<std::pair<std::string, Value<Field>>>& choices,
                                  const char* otherwise = nullptr) {
    std::string names, type;
    for (const auto& [name, value] : choices) {
      names += (names.empty() ? "" : ", ") + name;
      type += (type.empty() ? "\"" : " or \"") + name + '"';
    }
    return key(
        words, type, otherwise,
        [=](const io::JsonValue& value, Config& config) {
          const auto chosen = std::find_if(choices.begin(), choices.end(),
                                           [&](const auto& one) { return one.first == value.string(); });
          if (chosen == choices.end()) value.refuse("must be one of " + names);
          std::invoke(field, config) = chosen->second;
        },
        [=](const Config& config) {
          const Value<Field> value = value_in(field, config);
          return '"' +
                 std::find_if(choices.begin(), choices.end(), [&](const auto& one) { return one.second == value; })
                     ->first +
                 '"';
        });
  }
};

// Tables as text for a terminal, below a heading of its own for each section, and as a table of Markdown.
std::string keys_text(const std::vector<KeyWords>& keys);
std::string keys_markdown(const std::vector<KeyWords>& keys);

// The keys of one kind of config.
template <class Config>
struct KeyTable {
  std::string heading;  // "Keys of a classifier's config:\n"
  std::vector<ConfigKey<Config>> keys;

  std::string text() const { return heading + keys_text({keys.begin(), keys.end()}); }
  std::string markdown() const { return keys_markdown({keys.begin(), keys.end()}); }
};

// FormatError unless an object has no other members.
void expect_known(const io::JsonValue& object, const std::set<std::string>& known);

// Reads the document's root; FormatError for a key that is unknown, missing or out of its bounds.
template <class Config>
void read_keys(const io::JsonValue& root, const std::vector<ConfigKey<Config>>& keys, Config& config) {
  std::map<std::string, std::set<std::string>> known;
  std::set<std::string> sections;
  for (const auto& key : keys) {
    sections.insert(key.section.empty() ? key.name : key.section);
    if (!key.section.empty()) known[key.section].insert(key.name);
  }
  expect_known(root, sections);
  for (const auto& [section, names] : known) {
    if (const auto object = root.find(section)) expect_known(*object, names);
  }
  for (const auto& key : keys) {
    const bool required = key.otherwise.empty();
    const auto section = key.section.empty() ? root : required ? root[key.section] : root.find(key.section);
    if (!section) continue;
    if (const auto value = required ? (*section)[key.name] : section->find(key.name)) key.read(*value, config);
  }
}

}  // namespace qkv::training
