// Reads lines of standard input in growing batches, as they arrive.
#include "inputs/lines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

#include "core/counted.h"
#include "io/files/descriptor.h"
#include "qkv/error.h"
#include "signals.h"

namespace qkv::app {

constexpr std::size_t kFirstBatch = 32, kLargestBatch = 1024;
constexpr std::chrono::milliseconds kSilence{50};  // after which the rest of a line is not waited for
constexpr std::size_t kPart = 1 << 16;             // bytes: as much as a pipe holds

std::vector<Option> line_options(TextLineOptions& options) {
  return {{"--exact-text", flag(options.exact),
           "Keep every byte of a line; by default a byte order mark and carriage returns at line ends are removed, and "
           "every Unicode space becomes a space"},
          {"--replace-invalid", flag(options.replace_invalid), "Replace invalid UTF-8 with U+FFFD (default: refuse it)",
           excludes("--exact-text")}};
}

std::string text_of_option(const char* option, const std::string& text, const TextLineOptions& options) {
  if (text.empty()) throw UsageError(option, "must not be empty");
  try {
    return text_of_argument(text, options);
  } catch (const FormatError& error) {
    throw UsageError(option, error.what());
  }
}

std::vector<std::int32_t> ids_of_line(const std::string& line, std::int64_t number, std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  const char *at = line.data(), *end = at + line.size();
  while (true) {
    while (at < end && *at == ' ') ++at;
    if (at == end) break;
    std::int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (next < end && *next != ' ')) {
      throw FormatError(fmt::format("line {}: \"{}\" must be ids: whole numbers separated by spaces", number, line));
    }
    if (id < 0 || id >= vocab)
      throw FormatError(fmt::format("line {}: id {} must be from 0 to {}", number, id, vocab - 1));
    ids.push_back(id);
    at = next;
  }
  if (ids.empty()) throw FormatError(fmt::format("line {} has no ids", number));
  return ids;
}

std::string on_one_line(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

bool warn_of_letters(const char* command, std::int64_t number, const Tokenizer& tokenizer, const std::string& text) {
  const auto of = [&](auto holds) { return std::ranges::count_if(text, holds); };
  const auto ascii = of([](char c) { return static_cast<unsigned char>(c) < 0x80; });
  const auto others = of([](char c) { return static_cast<unsigned char>(c) >= 0xc0; });  // each of several bytes
  if (others <= ascii || std::ssize(tokenizer.encode(text).ids) <= others + ascii + 1) return false;  // 1: an end
  fmt::print(stderr, "{}: line {}: the model was not trained on these characters\n", command, number);
  return true;
}

void CutTexts::warn(const char* command, std::size_t max_length, const char* unit) const {
  if (texts_ == 0) return;
  fmt::print(stderr, "{}: {} of {}{} cut off; the model reads at most {} of a {}\n", command, counted(tokens_, "token"),
             counted(texts_, unit), tokens_ == 1 ? " is" : " are", max_length, unit);
}

InputLines::InputLines(const TextLineOptions& options) : options_(options), batch_(kFirstBatch) {}

// False if nothing came for so long.
bool InputLines::fetch(std::optional<std::chrono::milliseconds> patience) {
  if (!wait_to_read(STDIN_FILENO, patience)) return false;
  bytes_.erase(0, begin_);
  begin_ = 0;
  const std::size_t size = bytes_.size();
  bytes_.resize(size + kPart);
  const ssize_t got = io::retry([&] { return read(STDIN_FILENO, bytes_.data() + size, kPart); });
  bytes_.resize(size + static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  if (got < 0) io::throw_io_error("standard input", "read");
  ended_ = got == 0;
  return true;
}

bool InputLines::next(std::string& line) {
  while (must_wait()) fetch();
  if (begin_ == bytes_.size()) return false;
  const std::size_t end = std::min(bytes_.find('\n', begin_), bytes_.size());
  line = text_of_line(std::string_view(bytes_).substr(begin_, end - begin_), count_ + 1, options_);
  begin_ = std::min(end + 1, bytes_.size());
  ++count_;
  return true;
}

bool InputLines::arrives(std::chrono::milliseconds silence) {
  while (must_wait()) {
    const bool has_begun = begin_ < bytes_.size();
    if (!fetch(has_begun ? silence : std::chrono::milliseconds(0))) return false;
  }
  return true;
}

bool InputLines::next(std::vector<std::string>& lines) {
  lines.clear();
  try {
    for (std::string line; lines.size() < batch_ && (lines.empty() || arrives(kSilence)) && next(line);) {
      lines.push_back(std::move(line));
    }
  } catch (const std::runtime_error&) {
    if (lines.empty()) throw;  // else the next call comes here again
  }
  batch_ = lines.size() == batch_ ? std::min(4 * batch_, kLargestBatch) : kFirstBatch;
  return !lines.empty();
}

}  // namespace qkv::app
