// The fuzz targets: any bytes are read or refused, never more. QKV_FUZZ_TARGET names the one that runs; without it the
// program lists them, each with the folder of its corpus. Linked with libFuzzer, or with replay.cc, which runs over
// files.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "attention/forward/reduced_expectation.h"
#include "qkv/error.h"
#include "qkv/text/tokenizer.h"
#include "readers.h"

namespace qkv::fuzz {
namespace {

// Choices for one call of attention: masks, biases, scores, types, strides and shapes, on one of the CPU targets. The
// result is that of the double reference, and with precision = reduced within its bound.
void attend(std::string_view bytes) {
  if (bytes.empty()) return;
  static const std::vector<std::string> targets = testing::usable_targets();
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  select_target(targets[data[0] % targets.size()]);
  // Few pairs: most of the time shall go to combinations, not to sums.
  const testing::AttentionCase drawn(testing::Choices(std::span(data + 1, bytes.size() - 1)), 3e3);
  const std::string found = testing::unlike_reference(drawn) + testing::reduced_outcome(drawn).found;
  if (found.empty()) return;
  std::fprintf(stderr, "on %s: %s\n%s", std::string(selected_target()).c_str(), drawn.describe().c_str(),
               found.c_str());
  std::abort();
}

// Text: tokens inside of it, cutting off gives the beginning of the whole, and decoded piece by piece they are what
// they are decoded together.
template <int kIndex>
void encode(std::string_view text) {
  static const Tokenizer tokenizer =
      Tokenizer::load(std::string(QKV_GOLDEN_TOKENIZERS) + "/" + kTokenizers[kIndex] + ".json");
  const Encoding whole = tokenizer.encode(text, {.add_special_tokens = false});
  for (const TextSpan span : whole.offsets) {
    if (span.end < span.begin || span.end > text.size()) __builtin_trap();
  }
  const std::size_t length = text.size() % 8 + 1;
  const Encoding cut = tokenizer.encode(text, {.max_length = length, .add_special_tokens = false});
  if (cut.ids.size() != std::min(length, whole.ids.size())) __builtin_trap();
  if (!std::equal(cut.ids.begin(), cut.ids.end(), whole.ids.begin())) __builtin_trap();
  DecodeStream stream(tokenizer);
  std::string pieces;
  for (const std::int32_t id : whole.ids) pieces += stream.put(id);
  const std::string decoded = tokenizer.decode(whole.ids);
  const bool broken = decoded.find("\xEF\xBF\xBD") != std::string::npos;  // byte fallback may take back what it gave
  if (pieces + stream.finish() != decoded && !broken) __builtin_trap();
}

Target chosen{};

}  // namespace
}  // namespace qkv::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  using namespace qkv::fuzz;
  std::vector<Target> targets(kReaders.begin(), kReaders.end());
  targets.push_back({"attention", attend});
  [&]<int... i>(std::integer_sequence<int, i...>) {
    (targets.push_back({kTokenizers[i], encode<i>, "tokenizer_encode"}), ...);
  }(std::make_integer_sequence<int, static_cast<int>(std::size(kTokenizers))>());
  const char* name = std::getenv("QKV_FUZZ_TARGET");
  for (const Target& target : targets) {
    if (name == nullptr) std::printf("%s %s\n", target.name, target.corpus != nullptr ? target.corpus : target.name);
    if (name != nullptr && std::string_view(name) == target.name) chosen = target;
  }
  if (name == nullptr) std::exit(0);
  if (chosen.run == nullptr) std::fprintf(stderr, "no fuzz target is called %s\n", name), std::exit(2);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    qkv::fuzz::chosen.run({reinterpret_cast<const char*>(data), size});
  } catch (const qkv::FormatError&) {
  }
  return 0;
}
