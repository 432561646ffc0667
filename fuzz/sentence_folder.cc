// Behind a digit any bytes as one of the files of sentence-transformers; the others are as they should be.
#include "pipelines/pipeline_folder.h"
#include "qkv/error.h"
#include "reader.h"

namespace {

struct File {
  const char *name, *good;
};
constexpr File kFiles[] = {
    {"modules.json", R"([{"path": "", "type": "x.Transformer"}, {"path": "pool", "type": "x.Pooling"}])"},
    {"pool/config.json", R"({"embedding_dimension": 12, "pooling_mode": "cls"})"},
    {"sentence_bert_config.json", "{}"},
    {"tokenizer_config.json", "{}"},
    {"config_sentence_transformers.json", "{}"}};

}  // namespace

void read(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::size_t chosen = static_cast<unsigned char>(bytes[0] - '0') % std::size(kFiles);
  std::string folder;
  for (std::size_t i = 0; i < std::size(kFiles); ++i) {
    folder = qkv::fuzz::folder_with(kFiles[i].name, i == chosen ? bytes.substr(1) : kFiles[i].good);
  }
  try {
    const qkv::SentenceFolder found = qkv::read_sentence_folder(folder, 12);
    if (found.max_length < 0) __builtin_trap();
  } catch (const qkv::IoError &) {  // a module in a folder that is not there
  }
}
