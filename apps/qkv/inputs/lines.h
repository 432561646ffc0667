// How lines of texts are read, and those of standard input as they arrive.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text_lines.h"

namespace qkv::app {

// --exact-text and --replace-invalid.
std::vector<Option> line_options(TextLineOptions& options);

// The texts of a command line, by the rules of lines. UsageError of `option` for what is none, or empty.
std::string text_of_option(const char* option, const std::string& text, const TextLineOptions& options = {});

// The whole numbers below `vocab` of a line, separated by spaces. FormatError, naming the line by its number, if there
// is none, or something else.
std::vector<std::int32_t> ids_of_line(const std::string& line, std::int64_t number, std::int64_t vocab);

// A text as it is written where each has a line: with a space for each line break in it.
std::string on_one_line(std::string text);

// Says on standard error, and true, if a vocabulary takes more pieces for the text of line `number` than it has
// characters: the model has not learned its letters.
bool warn_of_letters(const char* command, std::int64_t number, const Tokenizer& tokenizer, const std::string& text);

// How many tokens of how many texts a model did not read.
class CutTexts {
 public:
  void add(std::int64_t tokens) {
    texts_ += tokens > 0 ? 1 : 0;
    tokens_ += tokens;
  }
  // Says so on standard error, if there are any.
  void warn(const char* command, std::size_t max_length, const char* unit = "text") const;

 private:
  std::int64_t texts_ = 0, tokens_ = 0;
};

// Reads the bytes of standard input itself, because a wait inside of the standard library cannot be interrupted. Lines
// are texts as text_lines.h has it: FormatError for one that is none. IoError if standard input cannot be read; Stopped
// once the user has asked for an end.
class InputLines {
 public:
  explicit InputLines(const TextLineOptions& options = {});

  // The next line. False at the end of input.
  bool next(std::string& line);

  // Whether another line is there; what has begun is waited for a little, at most `silence`.
  bool arrives(std::chrono::milliseconds silence = {});

  // Whether next() would have to wait for input.
  bool must_wait() const { return !ended_ && bytes_.find('\n', begin_) == std::string::npos; }

  // What has arrived, so that whoever writes line by line gets answers line by line: up to 32 lines, then, as long as
  // input does not pause, four times as many as before, up to 1,024. Lines before one that cannot be given come first.
  // False at the end of input.
  bool next(std::vector<std::string>& lines);

  // How many lines have been given.
  std::int64_t count() const { return count_; }

 private:
  bool fetch(std::optional<std::chrono::milliseconds> patience = {});

  TextLineOptions options_;
  std::string bytes_;      // that have arrived
  std::size_t begin_ = 0;  // of the next line
  bool ended_ = false;
  std::int64_t count_ = 0;
  std::size_t batch_;
};

}  // namespace qkv::app
