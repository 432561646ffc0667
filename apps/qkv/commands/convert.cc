// qkv convert: a GGUF file as a folder that transformers opens; qkv pack: a model's weights laid out for this CPU.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "inputs/options.h"
#include "io/files/descriptor.h"
#include "models/gguf_folder.h"
#include "notes.h"
#include "qkv/models/find_model.h"
#include "qkv/pipelines/pack.h"

namespace qkv::app {
namespace {

struct ConvertModelRequest {
  std::string file{};
  std::string folder{};
};

struct PackRequest {
  std::string model{};
  ModelStorage storage{};
};

void pack(const PackRequest& request) {
  auto line = std::make_unique<WorkingLine>("packing");
  const std::vector<std::string> written = pack_folder(find_language_model(request.model), request.storage.of_model());
  line.reset();
  for (const std::string& path : written) note_written(path, "commands map it when they open the model");
}

void convert(ConvertModelRequest request) {
  while (request.folder.size() > 1 && request.folder.ends_with('/')) request.folder.pop_back();
  if (io::is_there(request.folder)) throw UsageError("folder", request.folder + " already exists; give a new one");
  auto line = std::make_unique<WorkingLine>("converting");
  const ConvertedModel model = convert_gguf(request.file, request.folder);
  line.reset();
  note_written(request.folder, "qkv generate --model opens it");
  fmt::print("{}: {}, {} tensors, {} tokens\n", request.folder, model.kind, model.tensors, model.tokens);
}

}  // namespace

void add_convert(Command& program) {
  Command& command = program.add_command("convert", "Write a GGUF file as a model folder that transformers opens");
  command.add_examples({{"A GGUF file as a folder", "qkv convert model.gguf model"}});
  const auto request = std::make_shared<ConvertModelRequest>();
  command.add({{"file", file(request->file), "GGUF file; architectures: llama, qwen2, qwen3", required()},
               {"folder", file(request->folder, "FOLDER"), "Folder to write; must not exist", required()}});
  command.on_run([request] { convert(*request); });
}

void add_pack(Command& program) {
  Command& command = program.add_command("pack",
                                         "Pack a model's weights for this CPU into a file in the model's "
                                         "folder");
  command.add_examples({{"Make a model start at once", "qkv pack --model smollm2 --weights bf16"}});
  const auto request = std::make_shared<PackRequest>();
  command.add({{"--model", file(request->model, "FOLDER"),
                "Folder of the model, or a GGUF file. Writes panels-STORAGE.safetensors next to the weights; "
                "commands that open the model in this storage on such a CPU map it instead of packing again",
                required()}});
  command.add(storage_options(request->storage));
  command.on_run([request] { pack(*request); });
}

}  // namespace qkv::app
