// qkv tokenizer train: a byte-pair vocabulary learned from text files.
#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "qkv/commands.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/options.h"
#include "qkv/program.h"
#include "qkv/tokenizer.h"
#include "qkv/train_tokenizer.h"

namespace qkv::app {
namespace {

struct Request {
  std::vector<std::string> inputs{};
  std::int64_t vocab = 0;
  std::string out{};
};

// Each line is a text; in a .tsv file, each of its columns.
void add_file_to(TokenizerTrainer& trainer, const std::string& path) {
  const std::string content = read_file(path);
  const std::string_view ends = path.ends_with(".tsv") ? "\t\n" : "\n";
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = std::min(content.find_first_of(ends, at), content.size());
    std::string_view text = std::string_view(content).substr(at, end - at);
    if (text.ends_with('\r')) text.remove_suffix(1);
    trainer.add(text);
    at = end + 1;
    check_interruption();
  }
}

void train(const Request& request) {
  TokenizerTrainer trainer;
  for (const std::string& input : request.inputs) add_file_to(trainer, input);
  const std::string json = trainer.train(request.vocab);
  const std::int64_t tokens = Tokenizer::parse(json, request.out).vocab();
  write_file(request.out, json);
  fmt::print("{}: {} tokens{}\n", request.out, tokens,
             tokens < request.vocab ? ": the text has no more neighbours that were seen twice" : "");
}

}  // namespace

void add_tokenizer(CLI::App& program) {
  CLI::App& tokenizer = *program.add_subcommand("tokenizer", "Vocabularies");
  tokenizer.require_subcommand(1);
  CLI::App& command = *tokenizer.add_subcommand(
      "train", "Learn a byte-pair vocabulary from text and write it as a tokenizer.json, which the Python package "
               "tokenizers reads, too");
  const auto request = std::make_shared<Request>();
  command
      .add_option("--input", request->inputs,
                  "text files, each line a text; of .tsv files each column; the order makes no difference")
      ->required()
      ->type_name("FILE...");
  command.add_option("--vocab", request->vocab, "number of tokens, the 3 special ones and 256 bytes included")
      ->check(whole_number(TokenizerTrainer::kSmallestVocab, TokenizerTrainer::kLargestVocab))
      ->required()
      ->type_name("N");
  add_file(command, "--out", request->out, "the tokenizer.json to write")->required();
  command.callback([request] { train(*request); });
}

}  // namespace qkv::app
