// Reads, checks and tokenizes the pairs of a training.
#include "train/data/training_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "qkv/error.h"
#include "qkv/threads.h"

namespace qkv::training {
namespace {

std::vector<std::int32_t> encode(const SideTokens& side, const std::string& text) {
  std::vector<std::int32_t> ids = side.tokenizer.encode(text).ids;
  if (ids.empty() || ids.back() != side.end) ids.push_back(side.end);
  return ids;
}

}  // namespace

io::PairLines read_training_pairs(const std::string& path, std::span<const std::string> reserved,
                                  const TrainTranslatorFiles& files, const Notice& notice) {
  io::PairLines lines = io::read_pair_lines(path, reserved, files.lines);
  const std::size_t bad = lines.faults.size();
  if (bad == 0) return lines;
  const std::string& first = lines.faults.front();
  if (files.bad_lines == BadLines::refuse) {
    throw FormatError(bad == 1 ? first : fmt::format("{} (the first of {} bad lines)", first, bad));
  }
  notice(fmt::format("{}: {} of {} lines are bad and skipped; the first: {}", path, bad, bad + lines.pairs.size(),
                     first.substr(path.size() + 2)));
  return lines;
}

void notice_shared_pairs(const io::PairLines& train, const io::PairLines& valid, const std::string& valid_path,
                         const Notice& notice) {
  std::set<std::pair<std::string_view, std::string_view>> trained;
  for (const TextPair& pair : train.pairs) trained.emplace(pair.source, pair.target);
  std::size_t count = 0, first = 0;
  for (std::size_t i = 0; i < valid.pairs.size(); ++i) {
    if (trained.contains({valid.pairs[i].source, valid.pairs[i].target}) && count++ == 0) first = i;
  }
  if (count == 0) return;
  notice(fmt::format("{}: {} of {} pairs are also training pairs, the first in line {}", valid_path, count,
                     valid.pairs.size(), valid.numbers[first]));
}

std::vector<TokenPair> encode_pairs(const io::PairLines& texts, const SideTokens& source, const SideTokens& target,
                                    const TrainConfig& config, const std::string& path, const Notice& notice) {
  std::vector<TokenPair> all(texts.pairs.size());
  parallel_for(std::ssize(all), 0, [&](std::int64_t index, int) {
    const auto i = static_cast<std::size_t>(index);
    all[i] = {encode(source, texts.pairs[i].source), encode(target, texts.pairs[i].target)};
  });
  const auto most = static_cast<std::size_t>(config.max_length);
  const auto too_long = [&](const TokenPair& pair) { return std::max(pair.source.size(), pair.target.size()) > most; };
  const auto count = std::count_if(all.begin(), all.end(), too_long);
  if (count == 0) return all;
  const bool left_out = config.long_pairs == LongPairs::leave_out;
  notice(fmt::format("{}: {} of {} pairs have more than {} tokens on a side and are {}", path, count, all.size(), most,
                     left_out ? "left out" : "truncated"));
  if (left_out) {
    std::erase_if(all, too_long);
    return all;
  }
  const auto truncate = [&](std::vector<std::int32_t>& tokens, std::int32_t end) {
    if (tokens.size() <= most) return;
    tokens.resize(most);
    tokens.back() = end;
  };
  for (TokenPair& pair : all) {
    truncate(pair.source, source.end);
    truncate(pair.target, target.end);
  }
  return all;
}

}  // namespace qkv::training
