// Recognises chat templates by texts in them, without running them.
#include "pipelines/chat_template.h"

#include <algorithm>
#include <vector>

#include "io/files/descriptor.h"
#include "io/json/json_document.h"
#include "models/gguf_folder.h"
#include "models/model_config.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "text/stages/unicode.h"

namespace qkv::inline pipelines {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// The texts of a template in their order: those outside of its tags, and the strings inside of them.
class TemplateTexts {
 public:
  explicit TemplateTexts(std::string_view source) {
    bool trims = false;
    while (!source.empty()) {
      const std::size_t open = begin_of_tag(source);
      std::string_view plain = source.substr(0, open);
      source.remove_prefix(open);
      if (trims) plain.remove_prefix(std::min(plain.find_first_not_of(kSpaces), plain.size()));
      if (source.substr(0, 3).ends_with('-')) plain = plain.substr(0, plain.find_last_not_of(kSpaces) + 1);
      if (!plain.empty()) texts_.emplace_back(plain);
      if (source.empty()) return;
      const std::size_t end = source[1] == '#' ? source.find("#}") : end_of_tag(source);
      is_whole_ = is_whole_ && end < source.size();
      if (!is_whole_) return;
      trims = source[end - 1] == '-';
      source.remove_prefix(end + 2);
    }
  }

  bool is_whole() const { return is_whole_; }
  bool any_has(std::string_view part) const {
    return std::ranges::any_of(texts_, [&](const std::string& text) { return has(text, part); });
  }
  bool any_is(std::string_view whole) const { return std::ranges::find(texts_, whole) != texts_.end(); }
  // The last one that begins so; empty: none.
  std::string last_beginning(std::string_view begin) const {
    for (auto text = texts_.rbegin(); text != texts_.rend(); ++text) {
      if (text->starts_with(begin)) return *text;
    }
    return "";
  }
  // Templates for which it holds, each once.
  template <class Holds>
  std::vector<std::string> distinct(const Holds& holds) const {
    std::vector<std::string> found;
    std::ranges::copy_if(texts_, std::back_inserter(found), holds);
    std::ranges::sort(found);
    found.erase(std::ranges::unique(found).begin(), found.end());
    return found;
  }

 private:
  static std::size_t begin_of_tag(std::string_view source) {
    for (std::size_t at = source.find('{'); at < source.size() - 1; at = source.find('{', at + 1)) {
      if (has("{%#", source.substr(at + 1, 1))) return at;
    }
    return source.size();
  }

  // The place of the "}}" or "%}" that ends the tag at the beginning of `source`; its strings are kept.
  std::size_t end_of_tag(std::string_view source) {
    const std::string_view close = source[1] == '{' ? "}}" : "%}";
    for (std::size_t at = 2; at < source.size(); ++at) {
      if (source.substr(at, 2) == close) return at;
      const char quote = source[at];
      if (quote != '\'' && quote != '"') continue;
      std::string& text = texts_.emplace_back();
      for (++at; at < source.size() && source[at] != quote; ++at) {
        const bool escaped = source[at] == '\\' && at + 1 < source.size();
        if (escaped) ++at;
        text += escaped && source[at] == 'n' ? '\n' : source[at];
      }
    }
    return std::string_view::npos;
  }

  std::vector<std::string> texts_;
  bool is_whole_ = true;
};

// ChatML, Llama 3 and Gemma: turns between marks, the last one the beginning of the answer.
struct Turns {
  std::string_view begin, role_end, end, answer;
};
constexpr Turns kChatMl{"<|im_start|>", "\n", "<|im_end|>\n", "<|im_start|>assistant\n"};
constexpr Turns kLlama3{"<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>",
                        "<|start_header_id|>assistant<|end_header_id|>\n\n"};
constexpr Turns kGemma{"<start_of_turn>", "\n", "<end_of_turn>\n", "<start_of_turn>model\n"};

std::string turn(const Turns& kind, std::string_view role, std::string_view text) {
  std::string all;
  for (const std::string_view part : {kind.begin, role, kind.role_end, text, kind.end}) all += part;
  return all;
}

// The text before the user's turn: a system prompt that is one string, or the dates of Llama 3.
std::optional<std::string> system_prompt(const TemplateTexts& texts, const Turns& kind, std::string_view source) {
  const std::string cut = "Cutting Knowledge Date: December 2023\n", today = "Today Date: ", date = "26 Jul 2024";
  if (texts.any_is(cut) && texts.any_is(today) && texts.any_is(date)) {
    return turn(kind, "system", cut + today + date + "\n\n");
  }
  if (has(source, "Knowledge Date") || has(source, "strftime")) return {};
  const std::string begin = std::string(kind.begin) + "system";
  std::string prompt;
  for (const std::string& text : texts.distinct([&](const std::string& each) { return each.starts_with(begin); })) {
    const bool is_whole = text.ends_with(kind.end);
    // In ChatML parts are for prompts that a chat begins with.
    if (is_whole ? !prompt.empty() : kind.begin != kChatMl.begin) return {};
    if (is_whole) prompt = text;
  }
  return prompt;
}

std::optional<ChatTemplate> parse_turns(const TemplateTexts& texts, const Turns& kind, std::string_view source) {
  const std::string answer = texts.last_beginning(kind.answer);
  const std::string_view end = kind.end.substr(0, kind.end.find('\n'));
  const std::optional<std::string> system = system_prompt(texts, kind, source);
  if (answer.empty() || !texts.any_has(end) || texts.any_has("<|im_sep|>") || !system) return {};
  const std::string user = turn(kind, "user", "");
  const std::size_t head = user.size() - kind.end.size();
  return ChatTemplate{.before = *system + user.substr(0, head),
                      .behind = user.substr(head) + answer,
                      .mark = std::string(end),
                      .space = std::string(kind.end.substr(end.size())),
                      .next = user.substr(0, head)};
}

// The {{ }} around a place in the source; empty: there is none, or it is long.
std::string_view tag_around(std::string_view source, std::size_t at) {
  constexpr std::size_t kLongest = 512;
  const std::size_t from = at - std::min(at, kLongest);
  const std::size_t open = source.substr(from, at - from).rfind("{{"), close = source.substr(at, kLongest).find("}}");
  if (open == std::string_view::npos || close == std::string_view::npos) return {};
  const std::string_view tag = source.substr(from + open, at + close - from - open);
  return has(tag, "%}") || has(tag.substr(0, at - from - open), "}}") ? std::string_view() : tag;
}

// The result of `read` for the tag around each place of `name`; std::nullopt if there is none, or two differ.
template <class Read>
auto same_in_all(std::string_view source, std::string_view name, const Read& read) {
  decltype(read(source)) all;
  for (std::size_t at = source.find(name); at != std::string_view::npos; at = source.find(name, at + 1)) {
    const auto one = read(tag_around(source, at));
    if (!one) continue;
    if (all && *all != *one) return decltype(all)();
    all = one;
  }
  return all;
}

// The blanks of a string that + joins to what stands at one end of `code`, its last or its first; empty: another thing.
std::string joined_blanks(std::string_view code, bool last) {
  const auto take = [&](std::string_view wanted) {
    const std::size_t at = last ? code.find_last_not_of(kSpaces) : code.find_first_not_of(kSpaces);
    if (at == std::string_view::npos || !has(wanted, code.substr(at, 1))) return '\0';
    const char taken = code[at];
    last ? code.remove_suffix(code.size() - at) : code.remove_prefix(at + 1);
    return taken;
  };
  if (take("+") == 0) return {};
  const char quote = take("'\"");
  const std::size_t end = quote == 0 ? std::string_view::npos : last ? code.rfind(quote) : code.find(quote);
  if (end == std::string_view::npos) return {};
  const std::string_view text = last ? code.substr(end + 1) : code.substr(0, end);
  return text.find_first_not_of(' ') == std::string_view::npos ? std::string(text) : "";
}

// How an answer ends, and whether the token that begins a text begins every message.
void add_end_of_answer(std::string_view source, std::string_view begin, std::string_view end, ChatTemplate& chat) {
  constexpr std::string_view kEnd = "eos_token";
  using Blanks = std::pair<std::string, std::string>;
  const auto around = same_in_all(source, kEnd, [&](std::string_view tag) -> std::optional<Blanks> {
    const std::size_t at = tag.find(kEnd);
    if (at == std::string_view::npos || !has(tag, "content")) return {};
    return Blanks(joined_blanks(tag.substr(0, at), true), joined_blanks(tag.substr(at + kEnd.size()), false));
  });
  const auto begins = same_in_all(source, "[INST]", [](std::string_view tag) -> std::optional<bool> {
    return tag.empty() ? std::nullopt : std::optional(has(tag, "bos_token"));
  });
  if (!around || !begins || end.empty()) return;
  chat.blanks = around->first;
  chat.mark = end;
  chat.space = around->second;
  chat.next = (*begins ? std::string(begin) : "") + chat.before;
}

// Mistral and Llama 2: marks around what the user says, with blanks or without, which must be the same throughout.
std::optional<ChatTemplate> parse_instructions(const TemplateTexts& texts) {
  std::vector<std::string> marks;
  for (const std::string_view mark : {"[INST]", "[/INST]"}) {
    const std::vector<std::string> found = texts.distinct([&](const std::string& text) { return has(text, mark); });
    if (found.size() != 1 || found[0].find_first_not_of(' ') != found[0].find(mark) ||
        found[0].find_last_not_of(' ') + 1 != found[0].find(mark) + mark.size()) {
      return {};
    }
    marks.push_back(found[0]);
  }
  if (texts.any_has("[SYSTEM_PROMPT]")) return {};
  return ChatTemplate{.before = marks[0], .behind = marks[1]};
}

// Whether every message is trimmed, not only answers or the system prompt, messages[0].
bool trims_messages(std::string_view source) {
  for (const std::string_view trim : {"| trim", "|trim", ".strip()"}) {
    for (std::size_t at = source.find(trim); at != std::string_view::npos; at = source.find(trim, at + 1)) {
      if (has(tag_around(source, at), "eos_token")) continue;
      std::string_view trimmed = source.substr(0, at);
      trimmed = trimmed.substr(0, trimmed.find_last_not_of(kSpaces) + 1);
      for (const std::string_view content : {"['content']", "[\"content\"]", ".content", "content"}) {
        if (!trimmed.ends_with(content)) continue;
        if (!trimmed.substr(0, trimmed.size() - content.size()).ends_with(']')) return true;
        break;
      }
    }
  }
  return false;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty()) {
    const auto [code, size] = text::decode_utf8(text);
    if (!text::is_white_space(code)) break;
    text.remove_prefix(size);
  }
  std::size_t end = text.size();
  for (std::size_t at = end; at > 0;) {
    do --at;
    while (at > 0 && (text[at] & 0xC0) == 0x80);
    if (!text::is_white_space(text::decode_utf8(text.substr(at)).code)) break;
    end = at;
  }
  return text.substr(0, end);
}

// Whether a text begins so, but for blanks: tokenizers that mark the beginnings of words put one behind special tokens.
bool begins_with(std::string_view text, std::string_view begin) {
  std::size_t at = 0;
  return std::ranges::all_of(begin, [&](char wanted) {
    if (wanted == ' ') return true;
    at = text.find_first_not_of(' ', at);
    return at != std::string_view::npos && text[at++] == wanted;
  });
}

// A string, or an object with it as "content".
std::string token_of(const io::JsonValue& config, std::string_view name) {
  const auto token = config.find(name);
  return !token ? "" : token->is_string() ? token->string() : (*token)["content"].string();
}

// A string, or the one called "default" of a list.
std::optional<std::string> template_of(const io::JsonValue& config) {
  const auto given = config.find("chat_template");
  if (!given) return {};
  if (!given->is_list()) return given->string();
  for (const io::JsonValue& one : given->elements()) {
    if (one["name"].string() == "default") return one["template"].string();
  }
  return {};
}

}  // namespace

std::string ChatTemplate::render(std::string_view message) const {
  if (!refusal.empty()) throw FormatError(refusal);
  return before + std::string(trims ? trimmed(message) : message) + behind;
}

std::string ChatTemplate::render_next(std::string_view text, std::string_view message) const {
  if (!refusal.empty()) throw FormatError(refusal);
  if (next.empty()) {
    throw FormatError(
        "this model's chat template does not show how a chat continues: give the continuation as raw text");
  }
  if (!begins_with(text, before) || !has(text, behind)) {
    throw FormatError("the session's text is not a chat by this model's template: give the continuation as raw text");
  }
  // The model has ended its answer by the mark, without or with the space behind it, or not at all.
  std::string left = blanks + mark + space;
  if (text.ends_with(mark + space)) {
    left.clear();
  } else if (text.ends_with(mark)) {
    left = space;
  } else if (text.ends_with(blanks)) {
    left = mark + space;
  }
  return left + next + std::string(trims ? trimmed(message) : message) + behind;
}

std::optional<ChatTemplate> parse_chat_template(std::string_view source, std::string_view begin, std::string_view end) {
  const TemplateTexts texts(source);
  if (!texts.is_whole()) return {};
  std::optional<ChatTemplate> found;
  int kinds = 0;
  for (const Turns& kind : {kChatMl, kLlama3, kGemma}) {
    if (!texts.any_has(kind.begin)) continue;
    found = parse_turns(texts, kind, source);
    ++kinds;
  }
  if (texts.any_has("[INST]")) {
    found = parse_instructions(texts);
    if (found) add_end_of_answer(source, begin, end, *found);
    ++kinds;
  }
  if (kinds != 1 || !found) return {};
  if (has(source, "bos_token")) found->before.insert(0, begin);
  found->trims = trims_messages(source);
  return found;
}

ChatTemplate read_chat_template(const std::string& folder) try {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  const std::string config = folder + "/tokenizer_config.json", own = folder + "/chat_template.jinja";
  std::string path = config, begin, end;
  std::optional<std::string> source;
  if (is_gguf(folder) || io::is_there(config)) {
    const io::JsonDocument document = folder_document(folder, "tokenizer_config.json");
    begin = token_of(document.root(), "bos_token");
    end = token_of(document.root(), "eos_token");
    source = template_of(document.root());
  }
  if (io::is_there(own)) {
    path = own;
    source = read_file(own, kMostBytes);
  }
  if (!source) return {.refusal = config + ": chat_template is missing: the model is not made for chats"};
  if (auto found = parse_chat_template(*source, begin, end)) return *std::move(found);
  return {.refusal = path +
                     ": the chat template is not ChatML, Llama, Mistral or Gemma; format the message yourself and "
                     "give it with --raw (PromptForm::raw)"};
} catch (const FormatError& error) {
  return {.refusal = error.what()};
}

}  // namespace qkv::inline pipelines
