// Tables of keys as text and as Markdown, and what is no key.
#include "train/config/config_keys.h"

namespace qkv::training {
namespace {

std::string default_of(const KeyWords& key) { return key.otherwise.empty() ? "required" : key.otherwise; }

// Words in lines of at most `width`, each behind `indent`.
std::string wrapped(const std::string& text, std::size_t width, const std::string& indent) {
  std::string lines, line;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > width) {
      lines += indent + line + '\n';
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return lines + indent + line + '\n';
}

}  // namespace

std::string keys_text(const std::vector<KeyWords>& keys) {
  constexpr std::size_t kColumns = 98;
  std::string text, section;
  for (const KeyWords& key : keys) {
    if (key.section != section) text += fmt::format("\n\"{}\"\n", key.section);
    section = key.section;
    const std::string unit = key.unit == "-" ? "" : " (" + key.unit + ")";
    text += wrapped(fmt::format("{:<16} {}{}; {}", key.name, key.type, unit, default_of(key)), kColumns, "  ");
    text += wrapped(key.meaning, kColumns, std::string(6, ' '));
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
