// Packed matrices of a model in a file next to its weights, made once for a CPU target and a storage, and mapped by
// whoever opens the model from then on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "qkv/layers/weights.h"
#include "qkv/matmul.h"

namespace qkv::inline models {

// What the model's layers find in FOLDER/panels-bf16.safetensors, or model.gguf.panels-bf16.safetensors; nothing if
// there is no such file, or one of other weights, another config or another target. Within a PackingScope, what keeps
// them instead. `made_of`: the model's files of weights, and its config. FormatError for a file that breaks a rule.
std::shared_ptr<PanelStore> panels_of(const std::string& model, const std::vector<std::string>& made_of,
                                      WeightStorage storage);

// Called, from then on and on any thread, with a line for panels that are there and of no use: "PATH is for other
// weights or another config". nullptr: nobody. Not while models are opened.
void set_unfit_panels(void (*told)(const std::string& line));

// Keeps what models that this thread opens meanwhile pack.
class PackingScope {
 public:
  PackingScope();
  ~PackingScope();
  PackingScope(const PackingScope&) = delete;

  // Writes the files of panels; their paths.
  std::vector<std::string> write() const;

 private:
  friend std::shared_ptr<PanelStore> panels_of(const std::string&, const std::vector<std::string>&, WeightStorage);
  struct Kept;
  std::vector<std::shared_ptr<Kept>> kept_;
};

}  // namespace qkv::inline models
