// Tokenizer: runs the stages over a text, and decodes ids.
#include "qkv/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/refuse.h"
#include "core/stop.h"
#include "io/arrays/gguf.h"
#include "io/files/files.h"
#include "qkv/files.h"
#include "text/gguf_tokenizer.h"
#include "text/stages/byte_alphabet.h"
#include "text/tokenizer_parts.h"

namespace qkv {
namespace {

constexpr std::size_t kLargestFile = std::size_t{36} << 20;  // Gemma 3's, indented, has 33.4 million bytes

using text::CharacterSpan;
using text::Piece;

// The tokens of one text on the way to an Encoding.
class Encoder {
 public:
  Encoder(const Tokenizer::Parts& parts, std::size_t limit, std::int32_t type)
      : parts_(parts), limit_(limit), type_(type) {}

  void run(std::string_view utf8) {
    text::for_each_word(parts_, utf8, [&](const text::AddedToken* token, CharacterSpan characters) {
      ++word_;
      if (token != nullptr) {
        add(token->id, text::to_utf8(characters), characters);
      } else {
        add_word(characters);
      }
      return result_.ids.size() < limit_;
    });
  }

  // The tokens begin <= i < end of another text.
  void append(const Encoding& other, std::size_t begin, std::size_t end) {
    const auto add_all = [begin, end](auto& to, const auto& from) {
      to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(begin),
                from.begin() + static_cast<std::ptrdiff_t>(end));
    };
    add_all(result_.ids, other.ids);
    add_all(result_.tokens, other.tokens);
    add_all(result_.type_ids, other.type_ids);
    add_all(result_.offsets, other.offsets);
    add_all(result_.special, other.special);
    add_all(result_.words, other.words);
  }

  void add_special(const text::PostProcessor::Token& token) {
    result_.ids.push_back(token.id);
    result_.tokens.push_back(token.text);
    result_.type_ids.push_back(token.type_id);
    result_.offsets.emplace_back();
    result_.special.push_back(1);
    result_.words.push_back(-1);
  }

  Encoding take() { return std::move(result_); }

 private:
  void add_word(CharacterSpan word) {
    pieces_.clear();
    parts_.model->tokenize(word, pieces_);
    for (const Piece& piece : pieces_) {
      add(piece.entry->id, piece.entry->token, word.subspan(piece.begin, piece.end - piece.begin));
    }
  }

  void add(std::int32_t id, const std::string& token, CharacterSpan span) {
    if (result_.ids.size() >= limit_) return;
    result_.ids.push_back(id);
    result_.tokens.push_back(token);
    result_.type_ids.push_back(type_);
    result_.offsets.push_back(span_of(token, span));
    result_.special.push_back(0);
    result_.words.push_back(word_);
  }

  // The part of the text that the token covers; a space that it has at an end covers a character of the text there.
  TextSpan span_of(const std::string& token, CharacterSpan span) const {
    using Spaces = text::PostProcessor::Spaces;
    TextSpan covered{span.front().begin, span.back().end};
    const Spaces spaces = parts_.post_processor.spaces;
    if (spaces == Spaces::kept) return covered;
    const auto is_space = [](char32_t code) {
      return code == text::kByteCharacters[' '] || text::is_white_space(code);
    };
    const std::u32string codes = text::to_code_points(token);
    auto before = std::find_if_not(codes.begin(), codes.end(), is_space) - codes.begin();
    auto after = std::find_if_not(codes.rbegin(), codes.rend(), is_space) - codes.rbegin();
    const bool first = result_.ids.size() == 1 || covered.begin == 0;  // its own id is there already
    if (before > 0 && first && spaces == Spaces::trimmed_after_prefix) --before;
    for (std::size_t at = 0; before > 0 && at < span.size(); --before) {
      covered.begin = span[at].end;
      while (at < span.size() && span[at].begin < covered.begin) ++at;
    }
    for (std::size_t at = span.size(); after > 0 && at > 0; --after) {
      covered.end = span[at - 1].begin;
      while (at > 0 && span[at - 1].end > covered.end) --at;
    }
    covered.end = std::max(covered.begin, covered.end);
    return covered;
  }

  const Tokenizer::Parts& parts_;
  std::size_t limit_;  // of tokens
  std::int32_t type_;
  std::int32_t word_ = -1;
  Encoding result_;
  std::vector<Piece> pieces_;
};

void check_size(std::string_view utf8) {
  if (utf8.size() > std::numeric_limits<std::uint32_t>::max()) {
    refuse("encode", "the text has {} bytes, the limit is 2^32 - 1", utf8.size());
  }
}

// How many tokens each of two texts keeps where both have `most`: the longer one is cut first, as in tokenizers.
std::pair<std::size_t, std::size_t> longest_first(std::size_t first, std::size_t second, std::size_t most) {
  if (first <= most && second <= most - first) return {first, second};
  std::size_t less = std::min(first, second), more = less > most ? less : std::max(less, most - less);
  if (less > most || more > most - less) {
    less = most / 2;
    more = less + most % 2;
  }
  return first > second ? std::pair{more, less} : std::pair{less, more};
}

// Two texts, before it is decided what of them fits.
struct EncodedPair {
  const text::PostProcessor::Pair& around;
  Encoding first, second;
  std::size_t room;  // for the tokens of both

  // All of the first text up to `of_first`, of the second begin <= i < end.
  PairWindow window(const Tokenizer::Parts& parts, std::size_t of_first, std::size_t begin, std::size_t end) const {
    Encoder whole(parts, room, 0);
    for (const auto& token : around.before) whole.add_special(token);
    whole.append(first, 0, of_first);
    for (const auto& token : around.between) whole.add_special(token);
    whole.append(second, begin, end);
    for (const auto& token : around.after) whole.add_special(token);
    const std::size_t at = around.before.size() + of_first + around.between.size();
    return {whole.take(), at, at + end - begin};
  }
};

EncodedPair encode_both(const Tokenizer::Parts& parts, const char* function, std::string_view first,
                        std::string_view second, std::size_t max_length) {
  check_size(first);
  check_size(second);
  refuse_unless(parts.post_processor.pair.has_value(), function, "the tokenizer does not define pairs of texts");
  const text::PostProcessor::Pair& pair = *parts.post_processor.pair;
  const std::size_t most = max_length == 0 ? std::numeric_limits<std::size_t>::max() : max_length;
  refuse_unless(pair.count() <= most, function, "max_length {} leaves no room for {} special tokens", max_length,
                pair.count());
  const auto encode_one = [&](std::string_view utf8, std::int32_t type) {
    Encoder encoder(parts, std::numeric_limits<std::size_t>::max(), type);
    encoder.run(utf8);
    return encoder.take();
  };
  return {pair, encode_one(first, pair.first_type), encode_one(second, pair.second_type), most - pair.count()};
}

}  // namespace

Tokenizer Tokenizer::load(const std::string& path, std::int64_t vocab) {
  const auto json = [&] {
    if (!io::has_ending(path, ".gguf")) return read_file(path, kLargestFile);
    io::GgufFile file(path);
    return text::gguf_tokenizer_json(file);
  };
  auto document = std::make_unique<const io::JsonDocument>(json(), path, io::JsonNumbers::serde);
  return Tokenizer(std::make_shared<const Parts>(text::read_tokenizer_json(std::move(document), vocab)));
}

Tokenizer Tokenizer::load_marian(const std::string& pieces, const std::string& vocabulary, std::int64_t vocab) {
  return Tokenizer(std::make_shared<const Parts>(text::read_marian_tokenizer(pieces, vocabulary, vocab)));
}

Tokenizer Tokenizer::parse(std::string_view json, const std::string& name, std::int64_t vocab) {
  auto document = std::make_unique<const io::JsonDocument>(json, name, io::JsonNumbers::serde);
  return Tokenizer(std::make_shared<const Parts>(text::read_tokenizer_json(std::move(document), vocab)));
}

Encoding Tokenizer::encode(std::string_view utf8, const EncodeOptions& options) const {
  check_size(utf8);
  const text::PostProcessor& around = parts_->post_processor;
  const std::size_t special = options.add_special_tokens ? around.before.size() + around.after.size() : 0;
  const std::size_t most = options.max_length == 0 ? std::numeric_limits<std::size_t>::max() : options.max_length;
  if (special > most) {
    refuse("encode", "max_length {} leaves no room for {} special tokens", options.max_length, special);
  }
  Encoder encoder(*parts_, most - (options.add_special_tokens ? around.after.size() : 0), around.type_id);
  if (options.add_special_tokens) {
    for (const auto& token : around.before) encoder.add_special(token);
  }
  encoder.run(utf8);
  if (options.add_special_tokens) {
    for (const auto& token : around.after) encoder.add_special(token);
  }
  return encoder.take();
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second, std::size_t max_length) const {
  const EncodedPair pair = encode_both(*parts_, "encode_pair", first, second, max_length);
  const auto [of_first, of_second] = longest_first(pair.first.ids.size(), pair.second.ids.size(), pair.room);
  return pair.window(*parts_, of_first, 0, of_second).encoding;
}

std::vector<PairWindow> Tokenizer::encode_windows(std::string_view first, std::string_view second,
                                                  std::size_t max_length, std::size_t overlap) const {
  const EncodedPair pair = encode_both(*parts_, "encode_windows", first, second, max_length);
  const std::size_t of_first = pair.first.ids.size(), count = pair.second.ids.size();
  refuse_unless(of_first < pair.room || of_first + count <= pair.room, "encode_windows",
                "the first text has {} tokens, at most {} leave room for the second within max_length {}", of_first,
                pair.room == 0 ? 0 : pair.room - 1, max_length);
  const std::size_t room = pair.room - of_first, step = count <= room ? 1 : room - std::min(overlap, room - 1);
  std::vector<PairWindow> windows;
  for (std::size_t begin = 0;; begin += step) {
    const std::size_t end = count - begin <= room ? count : begin + room;
    windows.push_back(pair.window(*parts_, of_first, begin, end));
    if (end == count) return windows;
  }
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, const DecodeOptions& options) const {
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    const text::AddedToken* added = parts_->added.find(id);
    const std::string_view token = added != nullptr ? parts_->added.form(*added) : std::string_view(token_of(id));
    if (!options.skip_special_tokens || !parts_->added.is_special(token)) tokens.emplace_back(token);
  }
  return join(std::move(tokens));
}

std::string Tokenizer::join(std::vector<std::string> tokens) const {
  if (parts_->decoder) parts_->decoder(tokens);
  return fmt::format("{}", fmt::join(tokens, parts_->decoder ? "" : " "));
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const {
  if (const text::AddedToken* added = parts_->added.find(token)) return added->id;
  if (const auto* entry = parts_->model->vocabulary().find(token)) return entry->id;
  return std::nullopt;
}

bool Tokenizer::contains(std::int32_t id) const {
  return parts_->added.find(id) != nullptr || parts_->model->vocabulary().find(id) != nullptr;
}

const std::string& Tokenizer::token_of(std::int32_t id) const {
  if (const text::AddedToken* added = parts_->added.find(id)) return added->content;
  if (const auto* entry = parts_->model->vocabulary().find(id)) return entry->token;
  throw std::invalid_argument(fmt::format("id {} is not in the vocabulary", id));
}

std::vector<std::string> Tokenizer::special_tokens() const {
  std::vector<std::string> special;
  for (const text::AddedToken& added : parts_->added.all()) {
    if (parts_->added.is_special(added.content)) special.push_back(added.content);
  }
  return special;
}

std::optional<std::int32_t> Tokenizer::unknown() const {
  const text::Vocabulary::Entry* const entry = parts_->model->unknown();
  return entry == nullptr ? std::nullopt : std::optional(entry->id);
}

bool Tokenizer::marks_continuations() const { return !parts_->model->continuing_prefix().empty(); }

std::int64_t Tokenizer::vocab() const {
  const std::int32_t last_added = parts_->added.all().empty() ? -1 : parts_->added.all().back().id;
  return std::int64_t{1} + std::max(last_added, parts_->model->vocabulary().max_id());
}

std::string Tokenizer::digest() const {
  Sha256 digest;
  digest.add(parts_->rules);
  parts_->model->add_to(digest);
  StopTurns turns;
  for (const text::Vocabulary::Entry& entry : parts_->model->vocabulary().entries()) {
    turns.next();
    digest.add(entry.token);
    digest.add_number(entry.id);
  }
  for (const text::AddedToken& added : parts_->added.all()) {
    const auto& [content, id, special, single_word, lstrip, rstrip, normalized] = added;
    digest.add(content);
    digest.add_number(id);
    for (const bool flag : {special, single_word, lstrip, rstrip, normalized}) digest.add_number(flag);
  }
  return digest.hexadecimal();
}

std::string DecodeStream::put(std::int32_t id) {
  ids_.push_back(id);
  std::string text = tokenizer_.decode(ids_, options_);
  constexpr std::string_view kUnfinished = "\xEF\xBF\xBD";  // perhaps a character of which bytes are still to come
  if (text.size() <= given_.size() || text.ends_with(kUnfinished)) return "";
  // From here on, tokens are decoded together with this step's alone: a token reads differently at the beginning.
  std::string fresh = text.substr(given_.size());
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(done_));
  done_ = ids_.size();
  given_ = tokenizer_.decode(ids_, options_);
  return fresh;
}

std::string DecodeStream::finish() {
  const std::string text = tokenizer_.decode(ids_, options_);
  std::string rest = text.size() > given_.size() ? text.substr(given_.size()) : "";
  ids_.clear();
  given_.clear();
  done_ = 0;
  return rest;
}

}  // namespace qkv
