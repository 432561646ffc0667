// Parses and writes the header of a safetensors file, and reads the index of several.
#include "io/arrays/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <tuple>
#include <utility>

#include "io/files/byte_source.h"
#include "io/files/text.h"
#include "io/json/json_document.h"
#include "io/json/json_events.h"
#include "qkv/files.h"

namespace qkv::io {
namespace {

constexpr std::array<std::pair<std::string_view, Dtype>, 13> kTypeNames = {{{"F32", Dtype::f32},
                                                                            {"F64", Dtype::f64},
                                                                            {"BF16", Dtype::bf16},
                                                                            {"F16", Dtype::f16},
                                                                            {"I8", Dtype::i8},
                                                                            {"U8", Dtype::u8},
                                                                            {"I16", Dtype::i16},
                                                                            {"U16", Dtype::u16},
                                                                            {"I32", Dtype::i32},
                                                                            {"U32", Dtype::u32},
                                                                            {"I64", Dtype::i64},
                                                                            {"U64", Dtype::u64},
                                                                            {"BOOL", Dtype::boolean}}};

// In the format, but without elements that C++ has.
constexpr std::array<std::string_view, 9> kUnsupported = {"F4",      "F6_E2M3",     "F6_E3M2",     "F8_E5M2", "F8_E4M3",
                                                          "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64"};

// What is known of one tensor while its entry is read and until all are: kept small: a file may claim 100,000.
struct Entry {
  std::string name;
  std::optional<Dtype> dtype;
  std::uint8_t rank = 0;
  std::uint8_t offsets = 0;  // numbers seen in data_offsets
  bool has_shape = false;
  std::size_t first_extent = 0;  // in extents_
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class HeaderEvents : public JsonEvents {
 public:
  HeaderEvents(const std::string& name, std::uint64_t data_size) : JsonEvents(name), data_size_(data_size) {}

  SafetensorsHeader finish() {
    std::vector<Entry*> order;
    for (Entry& entry : entries_) order.push_back(&entry);
    std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) { return a->name < b->name; });
    const auto twice = std::adjacent_find(order.begin(), order.end(),
                                          [](const Entry* a, const Entry* b) { return a->name == b->name; });
    if (twice != order.end()) refuse(fmt::format("tensor {} appears twice", quote((*twice)->name)));
    std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
      return std::tie(a->begin, a->end, a->name) < std::tie(b->begin, b->end, b->name);
    });
    std::uint64_t covered = 0;
    for (const Entry* placed : order) {
      const Entry& entry = *placed;
      if (entry.begin != covered) {
        refuse(fmt::format("tensor {}: data_offsets [{}, {}] {} byte {}, where the tensors before it end",
                           quote(entry.name), entry.begin, entry.end,
                           entry.begin > covered ? "leave a hole after" : "overlap what lies before", covered));
      }
      covered = entry.end;
    }
    if (covered != data_size_) {
      refuse(fmt::format("the tensors hold {} bytes, but the file has {} bytes of data", covered, data_size_));
    }
    SafetensorsHeader header;
    header.metadata = std::move(metadata_);
    header.entries.reserve(entries_.size());
    for (Entry* entry : order) {
      Dims shape;
      for (const std::uint64_t extent : shape_of(*entry)) shape.push_back(static_cast<std::int64_t>(extent));
      header.entries.push_back({std::move(entry->name), *entry->dtype, shape, entry->end - entry->begin});
    }
    return header;
  }

  bool start_object(std::size_t) override {
    if (at_ == At::start) return go(At::names);
    if (at_ == At::entry) return go(At::fields);
    if (at_ == At::metadata) return go(At::metadata_keys);
    unexpected("an object");
  }

  bool key(std::string& key) override {
    switch (at_) {
      case At::names:
        if (key != kMetadataKey) return start_entry(key);
        if (std::exchange(has_metadata_, true)) refuse("__metadata__ appears twice");
        return go(At::metadata);
      case At::metadata_keys:
        if (metadata_.contains(key)) refuse(fmt::format("__metadata__: {} appears twice", quote(key)));
        if (metadata_.size() == kMostTensors) refuse(fmt::format("__metadata__: more than {} entries", kMostTensors));
        metadata_key_ = key;
        return go(At::metadata_value);
      default:
        return start_field(key);
    }
  }

  bool string(std::string& value) override {
    if (at_ == At::metadata_value) {
      metadata_[metadata_key_] = value;
      return go(At::metadata_keys);
    }
    if (at_ != At::dtype) unexpected("a string");
    for (const auto& [spelling, dtype] : kTypeNames) {
      if (spelling == value) entry().dtype = dtype;
    }
    if (entry().dtype) return go(At::fields);
    const bool known = std::find(kUnsupported.begin(), kUnsupported.end(), value) != kUnsupported.end();
    refuse_entry(known ? fmt::format("dtype {} is not supported", value)
                       : fmt::format("dtype {} is unknown", quote(value)));
  }

  bool start_array(std::size_t) override {
    if (at_ == At::shape) return go(At::extents);
    if (at_ == At::offsets) return go(At::offset_numbers);
    unexpected("an array");
  }

  bool number_unsigned(std::uint64_t value) override {
    if (at_ == At::extents) {
      if (entry().rank == kMaxRank) refuse_entry(fmt::format("shape has more than {} dimensions", kMaxRank));
      ++entry().rank;
      extents_.push_back(value);
    } else if (at_ == At::offset_numbers) {
      if (entry().offsets == 2) refuse_entry("data_offsets has more than two numbers");
      (++entry().offsets == 1 ? entry().begin : entry().end) = value;
    } else {
      unexpected("a number");
    }
    return true;
  }

  bool number_float(double, const std::string&) override { unexpected("a number that is not an integer of 64 bits"); }

  bool end_array() override {
    if (at_ == At::offset_numbers && entry().offsets != 2) refuse_entry("data_offsets needs two numbers");
    return go(At::fields);
  }

  bool end_object() override {
    if (at_ == At::fields) check_entry();
    return go(at_ == At::names ? At::end : At::names);
  }

 private:
  // Where in the header the next event belongs.
  enum class At {
    start,
    names,
    entry,
    fields,
    dtype,
    shape,
    extents,
    offsets,
    offset_numbers,
    metadata,
    metadata_keys,
    metadata_value,
    end
  };

  bool go(At at) {
    at_ = at;
    return true;
  }

  Entry& entry() { return entries_.back(); }
  const Entry& entry() const { return entries_.back(); }
  std::span<const std::uint64_t> shape_of(const Entry& entry) const {
    return std::span(extents_).subspan(entry.first_extent, entry.rank);
  }

  std::string of_entry(const std::string& what) const {
    return fmt::format("tensor {}: {}", quote(entry().name), what);
  }
  [[noreturn]] void refuse_entry(const std::string& what) const { refuse(of_entry(what)); }

  std::string why_not(std::string_view kind) const override {
    switch (at_) {
      case At::entry:
        return of_entry(fmt::format("{}, but must be an object", kind));
      case At::dtype:
        return of_entry(fmt::format("dtype is {}, but must be a string", kind));
      case At::shape:
      case At::extents:
        return of_entry(fmt::format("shape has {}, but must be an array of integers of 0 or more", kind));
      case At::offsets:
      case At::offset_numbers:
        return of_entry(fmt::format("data_offsets has {}, but must be an array of two integers of 0 or more", kind));
      case At::metadata:
        return fmt::format("__metadata__ is {}, but must be an object", kind);
      case At::metadata_value:
        return fmt::format("__metadata__: {} is {}, but must be a string", quote(metadata_key_), kind);
      default:
        return fmt::format("the header is {}, but must be an object", kind);
    }
  }

  bool start_entry(const std::string& name) {
    if (name.size() > kLongestTensorName) {
      refuse(fmt::format("tensor {}: name of {} bytes exceeds the limit of {}", quote(name), name.size(),
                         kLongestTensorName));
    }
    if (entries_.size() == kMostTensors) refuse(fmt::format("more than {} tensors", kMostTensors));
    name_bytes_ += name.size();
    if (name_bytes_ > kMostNameBytes) refuse(fmt::format("the names take more than {} bytes", kMostNameBytes));
    entries_.emplace_back();
    entry().name = name;
    entry().first_extent = extents_.size();
    return go(At::entry);
  }

  bool start_field(const std::string& field) {
    const auto first_time = [&](bool seen) {
      if (seen) refuse_entry(fmt::format("{} appears twice", field));
    };
    if (field == "dtype") {
      first_time(entry().dtype.has_value());
      return go(At::dtype);
    }
    if (field == "shape") {
      first_time(std::exchange(entry().has_shape, true));
      return go(At::shape);
    }
    if (field == "data_offsets") {
      first_time(entry().offsets > 0);
      return go(At::offsets);
    }
    refuse_entry(fmt::format("unknown field {}", quote(field)));
  }

  void check_entry() const {
    const auto& [name, dtype, rank, offsets, has_shape, first_extent, begin, end] = entry();
    if (!dtype) refuse_entry("dtype is missing");
    if (!has_shape) refuse_entry("shape is missing");
    if (offsets == 0) refuse_entry("data_offsets is missing");
    if (begin > end) refuse_entry(fmt::format("data_offsets [{}, {}] run backwards", begin, end));
    if (end > data_size_) {
      refuse_entry(fmt::format("data_offsets [{}, {}] reach beyond the {} bytes of data", begin, end, data_size_));
    }
    const auto shape = shape_of(entry());
    const std::optional<std::uint64_t> bytes = byte_count(shape, *dtype);
    if (bytes == end - begin) return;
    const std::string text = fmt::format("shape [{}] of {}", fmt::join(shape, ", "), safetensors_name(*dtype));
    if (!bytes) refuse_entry(text + " has too many elements");
    refuse_entry(
        fmt::format("data_offsets [{}, {}] hold {} bytes, but {} needs {}", begin, end, end - begin, text, *bytes));
  }

  std::uint64_t data_size_;
  At at_ = At::start;
  std::deque<Entry> entries_;
  std::size_t name_bytes_ = 0;
  std::vector<std::uint64_t> extents_;  // the shapes of all entries
  bool has_metadata_ = false;
  std::map<std::string, std::string> metadata_;
  std::string metadata_key_;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_size, const std::string& name) {
  if (!json.starts_with('{')) throw FormatError(name + ": header: must begin with {");
  HeaderEvents events(name + ": header", data_size);
  events.parse(json);
  return events.finish();
}

std::string_view safetensors_name(Dtype dtype) {
  return std::find_if(kTypeNames.begin(), kTypeNames.end(), [&](const auto& entry) { return entry.second == dtype; })
      ->first;
}

namespace {

constexpr std::string_view kEnding = ".safetensors";

std::string file_in_folder(const JsonValue& value) {
  const std::string file = value.string();
  if (!file.ends_with(kEnding)) value.refuse(fmt::format("must be a file name that ends with \"{}\"", kEnding));
  if (file.size() == kEnding.size() || file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
    value.refuse("must be a file of the same folder");
  }
  return file;
}

// Nothing follows from it: files of great models exist whose number is another than that of their bytes.
void check_total_size(const JsonValue& root) {
  const auto metadata = root.find("metadata");
  const auto size = metadata ? metadata->find("total_size") : std::nullopt;
  if (size && size->number() < 0) size->refuse("must be 0 or more");
}

}  // namespace

SafetensorsIndex parse_safetensors_index(std::string_view json, const std::string& name) {
  const JsonDocument document(json, name);
  const JsonValue root = document.root(), map = root["weight_map"];
  check_total_size(root);
  SafetensorsIndex index;
  std::size_t count = 0;
  map.for_each_member([&](const std::string& tensor, const JsonValue& file) {
    if (++count > kMostTensors) map.refuse(fmt::format("has more than {} tensors", kMostTensors));
    index[file_in_folder(file)].insert(tensor);
    if (index.size() > kMostShards) map.refuse(fmt::format("names more than {} files", kMostShards));
  });
  if (index.empty()) map.refuse("must name at least one tensor");
  return index;
}

SafetensorsIndex read_safetensors_index(const std::string& path) {
  return parse_safetensors_index(read_file(path, kLongestSafetensorsHeader), path);
}

}  // namespace qkv::io
