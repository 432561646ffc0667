// certify(): computed and known digests; certificates and packed weights of a folder's model.
#include "qkv/pipelines/certify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "core/refuse.h"
#include "core/share.h"
#include "io/files/text.h"
#include "models/panel_file.h"
#include "pipelines/certified_cases.h"
#include "pipelines/number_digest.h"
#include "qkv/pipelines/pack.h"
#include "qkv/stop.h"

namespace qkv {
namespace {

// Where one changes, so do bits that users keep: only with a new number of docs/arithmetic.md and a line of
// CHANGELOG.md. tests/arithmetic says how to write them.
constexpr std::pair<std::string_view, std::uint64_t> kKnownDigests[] = {
    {"20 training steps", 0xd3643780b832293d},
    {"backward f32 1x150x2100x16", 0xf05c7c9f58ced27a},
    {"backward f32 1x60x1300x40", 0x219ffe57c9a92453},
    {"backward f32 2x128x128x32", 0x3dd47f340102300a},
    {"backward f32 2x197x197x64", 0xac7312930a6b14e5},
    {"backward f32 2x5x300x24", 0x6f6f50cafb92c2ca},
    {"backward f32 3x33x65x7", 0x7d7549d35387ee5b},
    {"backward f64 1x150x2100x16", 0x38b2c555013a77ca},
    {"backward f64 1x60x1300x40", 0x622d5fb2b13af796},
    {"backward f64 2x128x128x32", 0xee53de2042ba5610},
    {"backward f64 2x197x197x64", 0xa28b8fc02d5da03a},
    {"backward f64 2x5x300x24", 0x65ff58e454803784},
    {"backward f64 3x33x65x7", 0x05559805ee132ea0},
    {"cross entropy", 0x1fc40628848e0a1b},
    {"forward f32 1x150x2100x16", 0xcf02241ce56915b8},
    {"forward f32 1x60x1300x40", 0x931e54795d65aa2a},
    {"forward f32 2x128x128x32", 0xe30a0738c3b2051b},
    {"forward f32 2x197x197x64", 0x24e4460e2c375e1a},
    {"forward f32 2x5x300x24", 0xb6ee5131144cdfe4},
    {"forward f32 3x33x65x7", 0xc80a07c448fb0415},
    {"forward f64 1x150x2100x16", 0x26cdeef2322143a4},
    {"forward f64 1x60x1300x40", 0x29d5d6692ada67ab},
    {"forward f64 2x128x128x32", 0xf75986b92ad756d5},
    {"forward f64 2x197x197x64", 0xfddfb5f70904d194},
    {"forward f64 2x5x300x24", 0x352894deb2839d96},
    {"forward f64 3x33x65x7", 0xc979604bbe82d0eb},
    {"gelu", 0x64b4914c9820a2e0},
    {"gelu_tanh", 0x1116eca0f7a8084f},
    {"generation", 0xa4cf4a26be573239},
    {"language model", 0x4af7bc103c6b5057},
    {"outputs f32 1x150x2100x16", 0xf1aa552a1e2f21c9},
    {"outputs f32 1x60x1300x40", 0x3d1311954e97f007},
    {"outputs f32 2x128x128x32", 0xa837cbbb495521e4},
    {"outputs f32 2x197x197x64", 0x9cab741b907ac47f},
    {"outputs f32 2x5x300x24", 0xe6ec486194d92271},
    {"outputs f32 3x33x65x7", 0xc9737b51bd92dc5e},
    {"outputs f64 1x150x2100x16", 0x03935ab63a836d62},
    {"outputs f64 1x60x1300x40", 0x73cf707b4e9c35f1},
    {"outputs f64 2x128x128x32", 0x8f5049aacb97242e},
    {"outputs f64 2x197x197x64", 0xbe035c611a040a41},
    {"outputs f64 2x5x300x24", 0x597dc53ad8841593},
    {"outputs f64 3x33x65x7", 0xb7dae221e8af0974},
    {"silu", 0x5cbba63f10d0af91},
    {"single query f32 1x700x33", 0x7563e0f25cc8847a},
    {"single query f32 4x2500x128", 0xde28cb13e93c73e5},
    {"single query f32 6x40x64", 0x4d61c8cb33afa8a7},
    {"single query f64 1x700x33", 0x640959cf8354a4bc},
    {"single query f64 4x2500x128", 0xfd0219238cc54868},
    {"single query f64 6x40x64", 0x920c809e4e1ac1c0},
    {"tangents f32 2x128x128x32", 0xe688d150a78e91f2},
    {"tangents f32 2x5x300x24", 0xc0f8559a1fafd2c2},
    {"tangents f64 2x128x128x32", 0x217153ec63df9334},
    {"tangents f64 2x5x300x24", 0x9bec68382d728600},
    {"text encoder", 0x1a37a645d3b7aba9},
    {"translation", 0x4db1f9084a5b2dba},
};

constexpr std::array<std::string_view, 3> kTexts = {"The animal didn't cross the street because it was too tired.",
                                                    "You are welcome.",
                                                    "A second sentence, of other words: 12 apples and 3.5 pears."};

std::uint64_t results_of(const Embedder& embedder, const FingerprintOptions& options) {
  const std::vector<std::string> texts(kTexts.begin(), kTexts.end());
  EmbedOptions embedding = options.embedding;
  embedding.threads = options.threads;
  if (embedder.kind() != EmbeddingKind::tokens) return digest_of({embedder.embed(texts, embedding)});
  std::vector<Tensor> tokens = embedder.embed_tokens(texts, embedding);
  return digest_of({tokens[0], tokens[1], tokens[2]});
}

template <class Written>
std::uint64_t digest_of_written(const std::vector<std::vector<Written>>& all) {
  NumberDigest digest;
  for (const std::vector<Written>& best : all) {
    for (const Written& each : best) {
      for (const std::int32_t id : each.ids) digest.add_number(static_cast<double>(id));
      digest.add_number(each.log_probability);
    }
  }
  return digest.value();
}

std::uint64_t results_of(const Translator& translator, const FingerprintOptions& options) {
  const std::vector<std::string> texts(kTexts.begin(), kTexts.end());
  return digest_of_written(translator.translate(texts, {.max_length = 32, .threads = options.threads}));
}

// Results on a few tokens in a row, since a tokenizer may be missing.
std::uint64_t results_of(const Generator& generator, const FingerprintOptions& options) {
  std::vector<std::vector<std::int32_t>> prompts(2);
  for (std::int32_t i = 0; i < 8; ++i) {
    prompts[i < 7 ? 0 : 1].push_back(static_cast<std::int32_t>(i % generator.model().config().vocab));
  }
  GeneratorOptions writing;
  writing.max_new_tokens = 16;
  writing.threads = options.threads;
  return digest_of_written(generator.generate_ids(prompts, writing));
}

std::uint64_t results_of(const Vit& model, const FingerprintOptions& options) {
  Random random(1);
  const VitConfig& config = model.config();
  const Tensor picture = normal_numbers(random, {1, config.picture.height, config.picture.width, config.channels});
  const VitOptions running{.threads = options.threads};
  return digest_of({config.labels.empty() ? model.forward(picture, running) : model.logits(picture, running)});
}

std::uint64_t results_of(const PictureClassifier& classifier, const FingerprintOptions& options) {
  return results_of(classifier.model(), options);
}

std::uint64_t results_of(const TextPipeline& texts, const FingerprintOptions& options) {
  std::vector<Tensor> all;
  for (const std::string_view text : kTexts) {
    const auto most = static_cast<std::size_t>(texts.model().encoder().config().positions);
    const Encoding encoding = texts.tokenizer().encode(std::string(text), {.max_length = most});
    const Tensor offsets =
        Tensor::of({2}, std::vector<std::int32_t>{0, static_cast<std::int32_t>(encoding.ids.size())});
    all.push_back(texts.model().logits({encoding.ids, encoding.type_ids, offsets}, {.threads = options.threads}));
  }
  return digest_of({all[0], all[1], all[2]});
}

// f(what the folder holds). Refusals begin with `function`.
template <class F>
auto with_folder(const char* function, const std::string& folder, WeightStorage storage, const F& f) {
  if (EncoderDecoder::is_in(folder)) return f(Translator::load(folder, storage));
  if (LanguageModel::is_in(folder)) return f(Generator::load(folder, storage));
  if (TextPipeline::is_in(folder)) return f(TextPipeline::load(folder, *TextModel::task_in(folder), storage));
  if (!Vit::is_in(folder)) return f(Embedder::load(folder, storage));
  const bool kept = storage == WeightStorage::full || precision_of(storage) != Precision::exact;
  refuse_unless(kept, function, "Vision Transformers keep weights as f32 alone, or for a reduced precision");
  Vit model = Vit::load(folder, storage);
  const bool classifies =
      !model.config().labels.empty() && std::filesystem::exists(folder + "/preprocessor_config.json");
  if (!classifies) return f(model);
  return f(PictureClassifier(ImageProcessor::load(folder), std::move(model)));
}

// The parts of a certificate between its hyphens and its colon; the last one is empty for a fingerprint.
std::vector<std::string> parts_of(const std::string& text) {
  constexpr std::size_t kParts = 5, kDigits = 32, kResultDigits = 16;
  const std::size_t colon = std::min(text.find(':'), text.size());
  std::vector<std::string> parts{""};
  for (const char c : text.substr(0, colon)) {
    if (c == '-') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  parts.push_back(colon < text.size() ? text.substr(colon + 1) : "");
  const auto is_digits = [](const std::string& part, std::size_t count) {
    return part.size() == count && part.find_first_not_of("0123456789abcdef") == std::string::npos;
  };
  refuse_unless(parts.size() == kParts + 1 && parts[0].starts_with("qkv") && is_digits(parts[kParts - 1], kDigits) &&
                    (colon == text.size() || is_digits(parts[kParts], kResultDigits)),
                "certificate",
                "{} is not a certificate: qkv1-fused-f32-exact- (or the like), 32 hexadecimal digits, optionally : "
                "and 16 more",
                io::quote(text));
  return parts;
}

}  // namespace

std::vector<CertifiedCase> certify(const FingerprintOptions& options) {
  const StopScope stop(options.stop);
  Digests found;
  constexpr void (*kCases[])(Digests&) = {add_attention_cases, add_row_cases, add_model_cases};
  ShareTurns turns(std::size(kCases));
  for (const auto add : kCases) {
    add(found);
    turns.next();
  }
  std::vector<CertifiedCase> cases;
  for (const auto& [name, digest] : found) {
    const auto known = std::ranges::find(kKnownDigests, name, &std::pair<std::string_view, std::uint64_t>::first);
    cases.push_back({name, digest, known == std::end(kKnownDigests) ? 0 : known->second});
  }
  return cases;
}

std::string fingerprint_of_folder(const std::string& folder, WeightStorage storage, const FingerprintOptions& options) {
  return with_folder("fingerprint", folder, storage, [&](const auto& model) { return fingerprint(model, options); });
}

std::string certificate(const std::string& folder, WeightStorage storage, const FingerprintOptions& options) {
  const StopScope stop(options.stop);
  ShareTurns turns(3, ShareTurns::divided);
  return with_folder("certificate", folder, storage, [&](const auto& model) {
    turns.next();
    const std::string name = fingerprint(model, options);
    turns.next();
    return fmt::format("{}:{:016x}", name, results_of(model, options));
  });
}

std::vector<std::string> pack_folder(const std::string& folder, WeightStorage storage) {
  refuse_unless(block_bytes(storage) == 0, "pack", "q8 and q4 are used as they are in the file; pack another storage");
  const PackingScope packing;
  return with_folder("pack", folder, storage, [&](const auto&) { return packing.write(); });
}

std::string difference_of_certificates(const std::string& here, const std::string& expected) {
  constexpr const char* kParts[] = {"the arithmetic's number",
                                    "the class of the CPU target",
                                    "how weights are kept",
                                    "the precision",
                                    "the model",
                                    "only the results: this machine differs"};
  const std::vector<std::string> own = parts_of(here), other = parts_of(expected);
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i] == other[i] || (i + 1 == own.size() && (own[i].empty() || other[i].empty()))) continue;
    return fmt::format("{}: {} here, {} expected", kParts[i], own[i], other[i]);
  }
  return {};
}

}  // namespace qkv
