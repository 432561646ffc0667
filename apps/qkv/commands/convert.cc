// qkv convert: a GGUF file as a folder that transformers opens.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "commands.h"
#include "io/files/descriptor.h"
#include "models/gguf_folder.h"
#include "notes.h"

namespace qkv::app {
namespace {

struct ConvertModelRequest {
  std::string file{};
  std::string folder{};
};

void convert(ConvertModelRequest request) {
  while (request.folder.size() > 1 && request.folder.ends_with('/')) request.folder.pop_back();
  if (io::is_there(request.folder)) throw UsageError("folder", request.folder + " is there already; name a new one");
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
  command.add(
      {{"file", file(request->file), "the GGUF file: of the architectures llama, qwen2 and qwen3", required()},
       {"folder", file(request->folder, "FOLDER"), "the folder to write, which must not be there", required()}});
  command.on_run([request] { convert(*request); });
}

}  // namespace qkv::app
