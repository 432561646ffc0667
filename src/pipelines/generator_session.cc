// Sessions as safetensors: every count, length and number is checked.
#include "pipelines/generator_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/sha256.h"
#include "io/arrays/safetensors_header.h"
#include "io/files/byte_source.h"
#include "qkv/error.h"
#include "qkv/layers/sequences.h"

namespace qkv::inline pipelines {
namespace {

constexpr const char* kFormat = "qkv session 1";
constexpr const char* kDigest = "digest";
constexpr const char* kIds = "ids";

std::string keys_name(std::size_t layer) { return fmt::format("layers.{}.keys", layer); }
std::string values_name(std::size_t layer) { return fmt::format("layers.{}.values", layer); }

// The only sequence, [tokens, heads, size], from pages [pages, rows, heads, size]. 0 where pages were dropped.
Tensor rows_of_pages(const TensorView& pages, const KeyValueCache& cache) {
  const std::int64_t length = cache.length(0), rows = pages.size(1);
  Tensor all = Tensor::zeros({length, pages.size(2), pages.size(3)}, pages.dtype());
  const TensorView blocks = cache.block_table();
  for (std::int64_t begin = cache.first_kept(0); begin < length; begin += rows) {
    const std::int64_t end = std::min(begin + rows, length);
    convert(pages.select(0, blocks.data<std::int32_t>()[begin / rows]).slice(0, 0, end - begin),
            all.view().slice(0, begin, end));
  }
  return all;
}

// A session file while it is checked.
class SessionFile {
 public:
  SessionFile(SafeTensors file, const std::string& name, const std::string& fingerprint)
      : name_(name), file_(std::move(file)) {
    if (metadata("format") != kFormat) refuse(fmt::format("is not a session: its format is not \"{}\"", kFormat));
    if (metadata(kDigest) != digest_of_session(file_)) refuse("is damaged: its SHA-256 does not match its content");
    const std::string& model = metadata("model");
    if (model != fingerprint) refuse(fmt::format("is of model {}; this one is {}", model, fingerprint));
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw FormatError(fmt::format("{}: the session {}", name_, why));
  }

  const std::string& metadata(const std::string& name) const {
    const auto found = file_.metadata.find(name);
    if (found == file_.metadata.end()) refuse(fmt::format("is not a session: \"{}\" is missing", name));
    return found->second;
  }

  std::uint64_t number(const std::string& name, int base) const {
    const std::string& text = metadata(name);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    if (error != std::errc() || end != text.data() + text.size()) {
      refuse(fmt::format("has \"{}\" for {}, which must be a number", text, name));
    }
    return number;
  }

  Tensor take(const std::string& name, Dtype dtype, const Dims& shape) {
    const auto found = file_.tensors.find(name);
    if (found == file_.tensors.end()) refuse("lacks " + name);
    Tensor tensor = std::move(found->second);
    file_.tensors.erase(found);
    const Dims wanted = shape.size() > 0 ? shape : Dims{tensor.element_count()};
    if (tensor.dtype() != dtype || tensor.shape() != wanted) {
      refuse(fmt::format("has {} {} for {}, which must be {} {}", name_of(tensor.dtype()), to_string(tensor.shape()),
                         name, name_of(dtype), to_string(wanted)));
    }
    return tensor;
  }

  void expect_end() const {
    if (!file_.tensors.empty()) refuse("has an unexpected tensor, " + file_.tensors.begin()->first);
  }

 private:
  const std::string name_;
  SafeTensors file_;
};

}  // namespace

std::string digest_of_session(const SafeTensors& file) {
  Sha256 digest;
  for (const auto& [name, text] : file.metadata) {
    if (name == kDigest) continue;
    digest.add(name);
    digest.add(text);
  }
  for (const auto& [name, tensor] : file.tensors) {
    digest.add(name);
    digest.add(fmt::format("{} {}", name_of(tensor.dtype()), to_string(tensor.shape())));
    digest.add(tensor.view().bytes(), static_cast<std::size_t>(tensor.element_count()) * size_of(tensor.dtype()));
  }
  return digest.hexadecimal();
}

GeneratorSession session_of(SafeTensors content, const std::string& name, const LanguageModel& model,
                            const std::string& fingerprint, Dtype cache_type) {
  SessionFile file(std::move(content), name, fingerprint);
  const LanguageModelConfig& config = model.config();
  const Tensor ids = file.take(kIds, Dtype::i32, {});
  const auto* first = ids.data<std::int32_t>();
  GeneratorSession session{.ids = {first, first + ids.element_count()}, .cache = model.make_cache(cache_type)};
  const std::int64_t tokens = std::ssize(session.ids) - 1;
  if (tokens < 1 || tokens > config.positions) {
    file.refuse(fmt::format("has {} tokens; the model reads 2 to {}", tokens + 1, config.positions + 1));
  }
  for (const std::int32_t id : session.ids) {
    if (id < 0 || id >= config.vocab) file.refuse(fmt::format("has id {}, which is not one of {}", id, config.vocab));
  }
  const std::uint64_t written = file.number("written", 10);
  if (written < 1 || std::cmp_greater(written, tokens)) {
    file.refuse(fmt::format("has {} of {} tokens generated; it must be at least 1 and not all", written, tokens + 1));
  }
  session.written = static_cast<std::int64_t>(written);
  session.log_probability = std::bit_cast<double>(file.number("log_probability", 16));
  if (!std::isfinite(session.log_probability)) file.refuse("has a log-probability that is not finite");
  const std::int64_t ends[] = {tokens};
  const Tensor offsets = offsets_of(ends);
  for (std::size_t i = 0; i < session.cache.layers.size(); ++i) {
    KeyValueCache& cache = session.cache.layers[i].self;
    const TensorView pages = cache.keys();
    const Dims shape{tokens, pages.size(2), pages.size(3)};
    const Tensor keys = file.take(keys_name(i), pages.dtype(), shape);
    cache.append(keys, file.take(values_name(i), pages.dtype(), shape), offsets);
  }
  file.expect_end();
  return session;
}

std::vector<std::int32_t> session_ids(const std::string& path) {
  io::FileSource source(path);
  const io::SafetensorsHeader header = io::read_safetensors_header(source, path);
  const auto is_ids = [](const std::string& name) { return name == kIds; };
  auto found = io::read_safetensors_elements(source, header, is_ids, path);
  if (found.empty() || found.begin()->second.dtype() != Dtype::i32) {
    throw FormatError(fmt::format("{}: the session lacks {}", path, kIds));
  }
  const Tensor& ids = found.begin()->second;
  return {ids.data<std::int32_t>(), ids.data<std::int32_t>() + ids.element_count()};
}

SafeTensors session_file(const GeneratorSession& session, const std::string& fingerprint) {
  SafeTensors file;
  file.tensors[kIds] = Tensor::of<std::int32_t>({std::ssize(session.ids)}, session.ids);
  for (std::size_t i = 0; i < session.cache.layers.size(); ++i) {
    const KeyValueCache& cache = session.cache.layers[i].self;
    file.tensors[keys_name(i)] = rows_of_pages(cache.keys(), cache);
    file.tensors[values_name(i)] = rows_of_pages(cache.values(), cache);
  }
  file.metadata = {{"format", kFormat},
                   {"model", fingerprint},
                   {"written", fmt::format("{}", session.written)},
                   {"log_probability", fmt::format("{:x}", std::bit_cast<std::uint64_t>(session.log_probability))}};
  file.metadata[kDigest] = digest_of_session(file);
  return file;
}

}  // namespace qkv::inline pipelines
