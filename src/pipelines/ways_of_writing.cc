// One text, many ways: what a language model writes, by a digest of each way of cutting the work.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <vector>

#include "core/sha256.h"
#include "core/share.h"
#include "qkv/pipelines/certify.h"
#include "qkv/random.h"

namespace qkv {
namespace {

using Ids = std::vector<std::int32_t>;
using Prompts = std::vector<Ids>;

constexpr std::int64_t kWayTokens = 12;

Prompts drawn_prompts(std::size_t count, const LanguageModelConfig& model) {
  Random random(7);
  // A quarter more is read with them.
  const std::int64_t most = (model.positions - kWayTokens) * 4 / 5;
  const auto longest = static_cast<std::uint64_t>(std::clamp<std::int64_t>(most, 1, 80));
  Prompts prompts(count);
  for (Ids& prompt : prompts) {
    prompt.resize(1 + random.below(longest));
    for (std::int32_t& id : prompt)
      id = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(model.vocab)));
  }
  return prompts;
}

// The continuation of each prompt.
class WrittenTexts {
 public:
  WrittenTexts(const Generator& generator, const GeneratorOptions& options)
      : generator_(generator), options_(options) {}

  void add(const Prompts& prompts) {
    for (const auto& found : generator_.generate_ids(prompts, options_)) texts_.push_back(found.front());
  }
  void add(GeneratedText text) { texts_.push_back(std::move(text)); }
  void reverse() { std::ranges::reverse(texts_); }
  // The digest of the first `count` ones.
  std::string digest(std::size_t count) const {
    Sha256 digest;
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::int32_t id : texts_[i].ids) digest.add_number(id);
      digest.add_number(texts_[i].log_probability);
    }
    return digest.hexadecimal();
  }

 private:
  const Generator& generator_;
  const GeneratorOptions& options_;
  std::vector<GeneratedText> texts_;
};

// In two parts, the second from the file of the first.
GeneratedText resumed_text(const Generator& generator, const Ids& prompt, GeneratorOptions options,
                           const std::string& session) {
  std::filesystem::remove(session);
  options.session = session;
  options.max_new_tokens = kWayTokens / 2;
  const auto part = [&](const Ids& own) { return generator.generate_ids(Prompts{own}, options).front().front(); };
  GeneratedText text = part(prompt);
  if (text.end == EndOfText::length) {
    Ids ids = std::move(text.ids);
    options.max_new_tokens = kWayTokens - std::ssize(ids);
    text = part({});
    text.ids.insert(text.ids.begin(), ids.begin(), ids.end());
  }
  std::filesystem::remove(session);
  return text;
}

// Each one, and then one that begins with it.
Prompts with_companions(const Prompts& prompts) {
  Prompts all = prompts;
  for (const Ids& prompt : prompts) {
    all.push_back(prompt);
    all.back().insert(all.back().end(), prompt.begin(), prompt.begin() + std::ssize(prompt) / 4);
  }
  return all;
}

}  // namespace

std::vector<WayOfWriting> ways_of_writing(const Generator& generator, std::size_t count, const std::string& session,
                                          const FingerprintOptions& options) {
  constexpr std::int64_t kWays = 14;
  ShareTurns turns(kWays + static_cast<std::int64_t>(count));  // those from a session take the longest: a turn each
  const Prompts prompts = drawn_prompts(count, generator.model().config());
  const GeneratorOptions plain{
      .max_new_tokens = kWayTokens, .greedy = true, .threads = options.threads, .stop = options.stop};
  std::vector<WayOfWriting> ways;
  const auto add = [&](const std::string& name, const GeneratorOptions& way,
                       const std::function<void(WrittenTexts&)>& write) {
    WrittenTexts written(generator, way);
    write(written);
    ways.push_back({name, written.digest(prompts.size())});
    turns.next();
  };
  const auto all = [&](WrittenTexts& written) { written.add(prompts); };
  const auto changed = [&](const auto& change) {
    GeneratorOptions way = plain;
    change(way);
    return way;
  };
  const auto in_batches = [&](std::size_t size) {
    return [&, size](WrittenTexts& written) {
      for (std::size_t begin = 0; begin < prompts.size(); begin += size) {
        written.add(Prompts(prompts.begin() + static_cast<std::ptrdiff_t>(begin),
                            prompts.begin() + static_cast<std::ptrdiff_t>(std::min(begin + size, prompts.size()))));
      }
    };
  };
  add("whole prompts", plain, all);
  for (const std::int64_t chunk : {7, 64, 2}) {
    add("chunks of " + std::to_string(chunk), changed([&](GeneratorOptions& way) { way.chunk = chunk; }), all);
  }
  add("alone", plain, in_batches(1));
  add("batches of 16", plain, in_batches(16));
  add("in another order", plain, [&](WrittenTexts& written) {
    written.add(Prompts(prompts.rbegin(), prompts.rend()));
    written.reverse();
  });
  add("batched with prompts that begin alike", plain,
      [&](WrittenTexts& written) { written.add(with_companions(prompts)); });
  add("resumed from a session", plain, [&](WrittenTexts& written) {
    for (const Ids& prompt : prompts) {
      written.add(resumed_text(generator, prompt, plain, session));
      turns.next();
    }
  });
  add("with drafts", changed([](GeneratorOptions& way) { way.drafts = Drafts::lookup; }), in_batches(1));
  for (const int threads : {1, 2, 5}) {
    add("threads: " + std::to_string(threads), changed([&](GeneratorOptions& way) { way.threads = threads; }), all);
  }
  const std::int64_t last = std::ssize(generator.model().config().layers) - 1;
  add("with the weights of two heads", changed([&](GeneratorOptions& way) { way.heads = {{0, 0}, {last, 0}}; }), all);
  return ways;
}

}  // namespace qkv
