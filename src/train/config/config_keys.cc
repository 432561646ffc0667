// Tables of keys as text and as Markdown, and what is no key.
#include "train/config/config_keys.h"

namespace qkv::training {
namespace {

std::string default_of(const KeyWords& key) { return key.otherwise.empty() ? "required" : key.otherwise; }

}  // namespace

std::string keys_text(const std::vector<KeyWords>& keys) {
  std::string text, section;
  for (const KeyWords& key : keys) {
    if (key.section != section) text += fmt::format("\n\"{}\"\n", key.section);
    section = key.section;
    const std::string unit = key.unit == "-" ? "" : " (" + key.unit + ")";
    text += fmt::format("  {:<16} {}{}; {}\n      {}\n", key.name, key.type, unit, default_of(key), key.meaning);
  }
  return text;
}

std::string keys_markdown(const std::vector<KeyWords>& keys) {
  std::string text = "| key | type | unit | default | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const KeyWords& key : keys) {
    const std::string section = key.section.empty() ? "" : key.section + ".";
    text += fmt::format("| `{}{}` | {} | {} | {} | {} |\n", section, key.name, key.type, key.unit, default_of(key),
                        key.meaning);
  }
  return text;
}

void expect_known(const io::JsonValue& object, const std::set<std::string>& known) {
  object.for_each_member([&](const std::string& key, const io::JsonValue& member) {
    if (known.contains(key)) return;
    std::string names;
    for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
    member.refuse("is unknown; known are " + names);
  });
}

}  // namespace qkv::training
