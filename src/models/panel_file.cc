// Files of packed matrices: written by PackingScope, found and mapped by panels_of().
#include "models/panel_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>

#include "core/sha256.h"
#include "io/arrays/safetensors_header.h"
#include "io/files/byte_source.h"
#include "io/files/descriptor.h"
#include "io/files/text.h"
#include "models/gguf_folder.h"
#include "ops/matmul/int8_panel.h"
#include "qkv/error.h"
#include "qkv/target.h"

namespace qkv::inline models {
namespace {

// Version of the panel layout: one more with every change.
constexpr const char* kLayout = "1";
constexpr const char* kRebuild = "; `qkv pack` rebuilds the file";
constexpr const char *kLayoutKey = "qkv_panels", *kTargetKey = "target", *kWeightsKey = "weights";

thread_local constinit PackingScope* packing = nullptr;
constinit std::atomic<void (*)(const std::string&)> tell_unfit{nullptr};

std::string panel_path(const std::string& model, WeightStorage storage) {
  const Precision precision = precision_of(storage);
  const auto* const named =
      std::ranges::find(kWeightStorages, storage, &std::pair<std::string_view, WeightStorage>::second);
  const std::string_view word = precision != Precision::exact ? name_of(precision) : named->first;
  return fmt::format("{}{}panels-{}.safetensors", model, is_gguf(model) ? "." : "/", word);
}

// Both ends and places between: clocks of file systems stand still for milliseconds, and archives set times alike.
std::string sample_of(const std::string& path) {
  constexpr std::uint64_t kPlaces = 16, kBytes = 256;
  io::FileSource file(path);
  const std::uint64_t size = file.remaining(), count = std::min(size, kBytes);
  char bytes[kBytes];
  Sha256 digest;
  for (std::uint64_t place = 0; place < kPlaces; ++place) {
    file.seek((size - count) * place / (kPlaces - 1));
    file.read(bytes, count);
    digest.add(bytes, count);
  }
  return digest.hexadecimal().substr(0, 16);
}

// Name, size, time and sample of each file.
std::string stamp_of(const std::vector<std::string>& files) {
  std::string stamp;
  for (const std::string& path : files) {
    struct stat status;
    if (::stat(path.c_str(), &status) != 0) io::throw_io_error(path, "read");
    stamp += fmt::format("{} {} {}.{:09} {};", path.substr(path.rfind('/') + 1), status.st_size, status.st_mtim.tv_sec,
                         status.st_mtim.tv_nsec, sample_of(path));
  }
  return stamp;
}

// Some targets lay int8 out by whether the CPU multiplies bytes, which their names do not say.
std::string target_of(WeightStorage storage) {
  const std::string target = selected_target();
  return storage == WeightStorage::int8 ? fmt::format("{}, {} bytes a step", target, int8_group()) : target;
}

std::map<std::string, std::string> metadata_of(const std::vector<std::string>& made_of, WeightStorage storage) {
  return {{kLayoutKey, kLayout}, {kTargetKey, target_of(storage)}, {kWeightsKey, stamp_of(made_of)}};
}

// A file's bytes as memory that is shared with whoever maps it too, and read when it is touched, as long as the pointer
// is kept. Replacing the file changes nothing; who cuts it short meanwhile ends the process by a signal.
struct MappedFile {
  // IoError unless the path is a regular file that can be read.
  explicit MappedFile(const std::string& path) {
    const io::Descriptor file = io::open_to_read(path);
    const auto size = static_cast<std::size_t>(io::regular_file_size(path, file));
    if (size == 0) return;
    void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) io::throw_io_error(path, "read");
    bytes = {static_cast<const std::byte*>(memory), size};
    owner.reset(memory, [size](const void* begin) { munmap(const_cast<void*>(begin), size); });
  }

  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

struct PanelFile {
  explicit PanelFile(const std::string& path) : file(path) {
    io::MemorySource source({reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()});
    try {
      header = io::read_safetensors_header(source, path);
    } catch (const FormatError& error) {
      throw FormatError(error.what() + std::string(kRebuild));
    }
    begin = static_cast<std::size_t>(source.position());
  }

  MappedFile file;
  io::SafetensorsHeader header;
  std::size_t begin;  // of the first matrix
};

// Why they are of no use; empty: they are.
std::string unfit(const io::SafetensorsHeader& header, const std::map<std::string, std::string>& metadata) {
  for (const auto& [key, wanted] : metadata) {
    const auto found = header.metadata.find(key);
    const std::string there = found == header.metadata.end() ? "" : found->second;
    if (there == wanted) continue;
    if (key == kTargetKey) return fmt::format("is for the target {}, not {}", io::quote(there), wanted);
    return key == kLayoutKey ? "has another version" : "is for other weights or another config";
  }
  return {};
}

class MappedPanels : public PanelStore {
 public:
  MappedPanels(std::string path, const PanelFile& panels) : path_(std::move(path)), owner_(panels.file.owner) {
    std::size_t begin = panels.begin;
    for (const io::SafetensorsEntry& entry : panels.header.entries) {
      matrices_[entry.name] = panels.file.bytes.subspan(begin, entry.bytes);
      begin += entry.bytes;
    }
  }

  std::optional<PackedMatrix> find(const std::string& name, std::int64_t rows, std::int64_t columns,
                                   WeightStorage storage) const override {
    const auto found = matrices_.find(name);
    if (found == matrices_.end()) return std::nullopt;
    try {
      return PackedMatrix(rows, columns, storage, found->second, owner_);
    } catch (const std::invalid_argument& error) {
      throw FormatError(fmt::format("{}: {}: {}{}", path_, io::quote(name), error.what(), kRebuild));
    }
  }
  void keep(const std::string&, const PackedMatrix&) override {}

 private:
  std::string path_;
  std::shared_ptr<const void> owner_;
  std::map<std::string, std::span<const std::byte>> matrices_;
};

}  // namespace

struct PackingScope::Kept : PanelStore {
  Kept(std::string file, std::map<std::string, std::string> said) : path(std::move(file)), metadata(std::move(said)) {}

  std::optional<PackedMatrix> find(const std::string&, std::int64_t, std::int64_t, WeightStorage) const override {
    return std::nullopt;
  }
  void keep(const std::string& name, const PackedMatrix& matrix) override { matrices.insert_or_assign(name, matrix); }

  std::string path;
  std::map<std::string, std::string> metadata;
  std::map<std::string, PackedMatrix> matrices;
};

PackingScope::PackingScope() { packing = this; }

PackingScope::~PackingScope() { packing = nullptr; }

std::vector<std::string> PackingScope::write() const {
  std::vector<std::string> written;
  for (const auto& kept : kept_) {
    if (kept->matrices.empty()) continue;
    io::SafetensorsHeader header{.entries = {}, .metadata = kept->metadata, .alignment = 64};
    const auto bytes_of = [&](const std::string& name) -> TensorView {
      const std::span<const std::byte> bytes = kept->matrices.at(name).bytes();
      return {bytes.data(), Dtype::u8, {std::ssize(bytes)}};
    };
    for (const auto& [name, matrix] : kept->matrices) {
      header.entries.push_back({name, Dtype::u8, {std::ssize(matrix.bytes())}, matrix.bytes().size()});
    }
    io::write_safetensors(kept->path, std::move(header), bytes_of);
    written.push_back(kept->path);
  }
  return written;
}

std::shared_ptr<PanelStore> panels_of(const std::string& model, const std::vector<std::string>& made_of,
                                      WeightStorage storage) {
  const std::string path = panel_path(model, storage);
  if (packing != nullptr) {
    return packing->kept_.emplace_back(std::make_shared<PackingScope::Kept>(path, metadata_of(made_of, storage)));
  }
  if (block_bytes(storage) > 0 || !io::is_there(path)) return nullptr;
  const PanelFile panels(path);
  if (const std::string reason = unfit(panels.header, metadata_of(made_of, storage)); !reason.empty()) {
    if (const auto tell = tell_unfit.load()) tell(path + " " + reason);
    return nullptr;
  }
  return std::make_shared<MappedPanels>(path, panels);
}

void set_unfit_panels(void (*told)(const std::string& line)) { tell_unfit = told; }

}  // namespace qkv::inline models
