// Models of one task have the same size, but for 3 %.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "compare/catalog.h"
#include "compare/pair_tasks.h"

namespace qkv::comparison {
namespace {

void expect_one_size(const std::vector<std::int64_t>& counts, std::int64_t wanted) {
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  EXPECT_LE(static_cast<double>(*most), 1.03 * static_cast<double>(*least));
  EXPECT_NEAR(static_cast<double>(*least), static_cast<double>(wanted), 0.2 * static_cast<double>(wanted));
}

TEST(ModelSize, ReadersOfATaskAreOfOneSize) {
  for (const char* name : {"recall", "copy", "key-value"}) {
    const CatalogTask& task = catalog_task(name);
    std::vector<std::int64_t> counts;
    for (const std::string& model : task.models) {
      const auto config = sized(sequence_kind(model), vocab_of(sequence_task(name)), task.parameters);
      counts.push_back(parameter_count(SequenceModel(config, 1)));
    }
    expect_one_size(counts, task.parameters);
  }
}

TEST(ModelSize, TranslatorsOfATaskAreOfOneSize) {
  const EncoderDecoderTokens phrases = read_phrase_book(QKV_SOURCE_DIR "/data/phrases.es.tsv").tokens;
  for (const auto& [name, tokens] : {std::pair("reversal", reversal_tokens(20)), std::pair("phrases", phrases)}) {
    const CatalogTask& task = catalog_task(name);
    std::vector<std::int64_t> counts;
    for (const std::string& model : task.models) {
      const auto config = sized(translator_kind(model), tokens, task.parameters);
      counts.push_back(parameter_count(TranslatorModel(config, 1)));
    }
    expect_one_size(counts, task.parameters);
  }
}

}  // namespace
}  // namespace qkv::comparison
