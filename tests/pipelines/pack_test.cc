// Packed weights in a file: the same bits, files that do not fit, and files that are damaged.
#include "qkv/pipelines/pack.h"

#include <sys/stat.h>

#include "models/models_for_test.h"
#include "models/panel_file.h"
#include "qkv/pipelines/certify.h"
#include "qkv/pipelines/fingerprint.h"
#include "qkv/target.h"

namespace qkv::test {
namespace {

std::vector<std::string> unfit_lines;

// Of a golden model; what is said of unfit panels is in `unfit_lines`.
struct PackedFolder : GoldenCopy {
  explicit PackedFolder(const std::string& name) : GoldenCopy(name) {
    unfit_lines.clear();
    set_unfit_panels([](const std::string& line) { unfit_lines.push_back(line); });
  }
  ~PackedFolder() { set_unfit_panels(nullptr); }
};

// Everything a folder computes is what it computed before, and comes from the file: other numbers there are other
// results.
TEST(Pack, KeepsTheBits) {
  using enum WeightStorage;
  const std::pair<const char*, std::vector<WeightStorage>> models[] = {
      {"language/gpt2", {full, bf16, int8, int8_groups, reduced}},
      {"language/llama", {full, bf16, int8_groups}},
      {"translate/opus_text", {full, int8, reduced}},
      {"encoders/roberta", {full, bf16, int8_groups}},
      {"vit/vit", {full, reduced}}};
  for (const auto& [name, storages] : models) {
    for (const WeightStorage storage : storages) {
      const PackedFolder folder(name);
      const std::string before = certificate(folder / "", storage);
      const std::vector<std::string> files = pack_folder(folder / "", storage);
      ASSERT_EQ(files.size(), 1u);
      EXPECT_EQ(certificate(folder / "", storage), before) << files[0];
      std::string bytes = slurp(files[0]);
      std::fill(bytes.end() - static_cast<std::ptrdiff_t>(bytes.size() / 2), bytes.end(), '\1');
      std::filesystem::remove(files[0]);
      std::ofstream(files[0], std::ios::binary) << bytes;
      EXPECT_NE(certificate(folder / "", storage), before) << files[0];
      EXPECT_EQ(pack_folder(folder / "", storage), files);  // anew, from the weights
      EXPECT_EQ(certificate(folder / "", storage), before) << files[0];
      EXPECT_TRUE(unfit_lines.empty());
    }
  }
}

// Numbers that are bf16 in the folder are kept once, with the bits that f32 has of them.
TEST(Pack, TableInBf16IsKeptOnce) {
  const PackedFolder wide("language/gpt2"), narrow("language/gpt2");
  SafeTensors tensors = read_safetensors(wide / "model.safetensors");
  for (auto& [name, tensor] : tensors.tensors) tensor = convert(tensor, Dtype::bf16);
  write_safetensors(narrow / "model.safetensors", tensors);
  for (auto& [name, tensor] : tensors.tensors) tensor = convert(tensor, Dtype::f32);
  write_safetensors(wide / "model.safetensors", tensors);
  const std::string expected = certificate(wide / "", WeightStorage::bf16);
  EXPECT_EQ(certificate(narrow / "", WeightStorage::bf16), expected);
  pack_folder(narrow / "", WeightStorage::bf16);
  EXPECT_EQ(certificate(narrow / "", WeightStorage::bf16), expected);
}

TEST(Pack, ATableApartFromTheOutputIsInTheFile) {
  const PackedFolder folder("language/llama");
  for (const WeightStorage storage : {WeightStorage::full, WeightStorage::reduced}) {
    const SafeTensors packed = read_safetensors(pack_folder(folder / "", storage)[0]);
    EXPECT_TRUE(packed.tensors.contains("embeddings.weight.0"));
  }
}

TEST(Pack, OfOtherWeightsConfigOrTargetIsNotUsed) {
  const PackedFolder folder("language/gpt2");
  const std::string file = pack_folder(folder / "")[0], model = folder / "model.safetensors";
  SafeTensors tensors = read_safetensors(model);
  for (auto& [name, tensor] : tensors.tensors) {
    for (float& number : std::span(tensor.data<float>(), static_cast<std::size_t>(tensor.element_count()))) number += 1;
  }
  const auto written = std::filesystem::last_write_time(model);
  write_safetensors(model, tensors);
  std::filesystem::last_write_time(model, written);  // of the same size and time
  const std::string changed = certificate(folder / "");
  EXPECT_EQ(unfit_lines, std::vector{file + " is for other weights or another config"});
  std::filesystem::remove(file);
  EXPECT_EQ(certificate(folder / ""), changed);

  pack_folder(folder / "");
  std::ofstream(folder / "config.json", std::ios::app) << '\n';
  unfit_lines.clear();
  EXPECT_EQ(certificate(folder / ""), changed);
  EXPECT_EQ(unfit_lines, std::vector{file + " is for other weights or another config"});

  pack_folder(folder / "");
  const std::string here = selected_target();
  unfit_lines.clear();
  for (const Target& target : targets()) {
    if (!target.usable || target.name == here) continue;
    select_target(target.name);
    certificate(folder / "");
    EXPECT_EQ(unfit_lines, std::vector{file + " is for the target \"" + here + "\", not " + target.name});
    unfit_lines.clear();
  }
  select_target("");
}

// CPUs of one target may differ in it, and the panels of both have one size.
TEST(Pack, Int8InOtherStepsIsNotUsed) {
  const PackedFolder folder("language/gpt2");
  const std::string before = certificate(folder / "", WeightStorage::int8);
  const std::string file = pack_folder(folder / "", WeightStorage::int8)[0];
  SafeTensors packed = read_safetensors(file);
  for (auto& [name, tensor] : packed.tensors) std::fill_n(tensor.data<std::uint8_t>(), tensor.element_count(), 1);
  const std::string here = std::exchange(packed.metadata.at("target"), selected_target() + ", 3 bytes a step");
  EXPECT_TRUE(here == selected_target() + ", 1 bytes a step" || here == selected_target() + ", 4 bytes a step") << here;
  write_safetensors(file, packed);
  EXPECT_EQ(certificate(folder / "", WeightStorage::int8), before);
  EXPECT_EQ(unfit_lines,
            std::vector{file + " is for the target \"" + selected_target() + ", 3 bytes a step\", not " + here});
}

TEST(Pack, RefusesBlocksAndDamagedFiles) {
  const PackedFolder folder("language/gpt2");
  EXPECT_EQ(message_of<std::invalid_argument>([&] { pack_folder(folder / "", WeightStorage::q8); }),
            "pack: q8 and q4 are used as they are in the file; pack another storage");
  EXPECT_EQ(
      message_of<std::invalid_argument>([] { pack_folder(QKV_TEST_DATA "/golden/vit/vit", WeightStorage::int8); }),
      "pack: Vision Transformers keep weights as f32 alone, or for a reduced precision");
  const std::string file = pack_folder(folder / "")[0], bytes = slurp(file);
  const std::map<std::string, std::string> metadata = read_safetensors(file).metadata;
  const auto expect_refused = [&](const std::string& damaged) {
    std::filesystem::remove(file);
    std::ofstream(file, std::ios::binary) << damaged;
    const std::string message = message_of<FormatError>([&] { certificate(folder / ""); });
    EXPECT_TRUE(message.starts_with(file) && message.ends_with("; `qkv pack` rebuilds the file")) << message;
  };
  expect_refused("");
  expect_refused(bytes.substr(0, 7));
  expect_refused(bytes.substr(0, bytes.size() - 1));
  expect_refused(bytes + "x");
  for (const bool fifo : {false, true}) {
    std::filesystem::remove(file);
    fifo ? static_cast<void>(::mkfifo(file.c_str(), 0600)) : static_cast<void>(std::filesystem::create_directory(file));
    EXPECT_TRUE(message_of<IoError>([&] { certificate(folder / ""); }).starts_with(file)) << fifo;
  }
  std::filesystem::remove(file);
  // A matrix of another size.
  write_safetensors(file, {.tensors = {{"embeddings.weight.0", Tensor::zeros({64}, Dtype::u8)}}, .metadata = metadata});
  const std::string message = message_of<FormatError>([&] { certificate(folder / ""); });
  EXPECT_TRUE(message.starts_with(file + ": \"embeddings.weight.0\": PackedMatrix: 64 bytes; ")) << message;
}

}  // namespace
}  // namespace qkv::test
