// qkv tokenizer: a byte-pair vocabulary learned from text files, text to ids and ids to text.
#include "qkv/text/tokenizer.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "inputs/lines.h"
#include "io/files/files.h"
#include "notes.h"
#include "qkv/files.h"
#include "qkv/text/train_tokenizer.h"
#include "signals.h"

namespace qkv::app {
namespace {

struct VocabularyRequest {
  std::vector<std::string> inputs{};
  std::int64_t vocab = 0;
  std::string out{};
  TextLineOptions lines{};
};

// Each line is a text; in a .tsv file, each of its columns.
void add_file_to(TokenizerTrainer& trainer, const std::string& path, const TextLineOptions& options) {
  const std::string content = read_file(path);
  const bool has_columns = io::has_ending(path, ".tsv");
  std::int64_t number = 0;
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    const std::string line = text_of_line(std::string_view(content).substr(at, end - at), ++number, options, path);
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t tab = has_columns ? std::min(line.find('\t', begin), line.size()) : line.size();
      trainer.add(std::string_view(line).substr(begin, tab - begin));
      begin = tab + 1;
    }
    at = end + 1;
    check_interruption();
  }
}

void train(const VocabularyRequest& request) {
  TokenizerTrainer trainer;
  for (const std::string& input : request.inputs) add_file_to(trainer, input, request.lines);
  const std::string json = trainer.train(request.vocab);
  const std::int64_t tokens = Tokenizer::parse(json, request.out).vocab();
  write_file(request.out, json);
  note_written(request.out, "qkv tokenizer encode --tokenizer reads it");
  fmt::print("{}: {} tokens{}\n", request.out, tokens,
             tokens < request.vocab ? ": no other adjacent pair occurs twice" : "");
}

// Calls f(line, its number) for each line of standard input; an answer goes out before the next line is waited for.
template <class F>
void for_each_input_line(const TextLineOptions& options, const F& f) {
  std::ios::sync_with_stdio(false);
  InputLines input(options);
  for (std::string line; input.next(line);) {
    std::cout << f(line, input.count()) << '\n';
    if (input.must_wait()) flush_output();
    check_interruption();
  }
  flush_output();
}

struct ConvertRequest {
  std::string tokenizer{};
  TextLineOptions lines{};
};

void encode(const ConvertRequest& request) {
  const Tokenizer tokenizer = Tokenizer::load(request.tokenizer);
  for_each_input_line(request.lines, [&](const std::string& line, std::int64_t) {
    return fmt::format("{}", fmt::join(tokenizer.encode(line).ids, " "));
  });
}

// An empty line is an empty text.
void decode(const ConvertRequest& request) {
  const Tokenizer tokenizer = Tokenizer::load(request.tokenizer);
  for_each_input_line(request.lines, [&](const std::string& line, std::int64_t number) {
    if (line.find_first_not_of(' ') == std::string::npos) return std::string();
    return on_one_line(tokenizer.decode(ids_of_line(line, number, tokenizer.vocab())));
  });
}

void add_tokenizer_train(Command& tokenizer) {
  Command& command = tokenizer.add_command("train",
                                           "Learn a byte-pair vocabulary from text and write it as tokenizer.json, "
                                           "which Hugging Face's tokenizers can read");
  command.add_examples(
      {{"A vocabulary of 8,000 tokens", "qkv tokenizer train --input texts.txt --vocab 8000 --out tokenizer.json"}});
  const auto request = std::make_shared<VocabularyRequest>();
  command.add(
      {{"--input", text(request->inputs, "FILE"),
        "Text files, one text per line; in .tsv files one per column; their order makes no difference", required()},
       {"--vocab", whole(request->vocab, TokenizerTrainer::kSmallestVocab, TokenizerTrainer::kLargestVocab),
        "Number of tokens, including the 3 special ones and 256 bytes", required()},
       {"--out", output_file(request->out, {".json"}), "output: tokenizer.json", required()}});
  command.add(line_options(request->lines));
  command.on_run([request] { train(*request); });
}

void add_conversion(Command& tokenizer, const char* name, const char* help, void (*convert)(const ConvertRequest&)) {
  Command& command = tokenizer.add_command(name, help);
  command.add_examples(
      {{"Lines of a file", fmt::format("qkv tokenizer {} --tokenizer tokenizer.json < lines.txt", name)}});
  const auto request = std::make_shared<ConvertRequest>();
  command.add({{"--tokenizer", file(request->tokenizer), "tokenizer.json or a GGUF file", required()}});
  command.add(line_options(request->lines));
  command.on_run([request, convert] { convert(*request); });
}

}  // namespace

void add_tokenizer(Command& program) {
  Command& tokenizer = program.add_command("tokenizer", "Learn a vocabulary; convert text to ids and back");
  add_tokenizer_train(tokenizer);
  add_conversion(tokenizer, "encode", "Print the ids of each line of standard input", encode);
  add_conversion(tokenizer, "decode",
                 "Print the text of each line of ids on standard input; line breaks in it become spaces", decode);
}

}  // namespace qkv::app
