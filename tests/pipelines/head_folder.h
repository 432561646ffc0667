// Folders of random encoders with a tokenizer, which several golden folders have heads for.
#pragma once

#include "io/files_for_test.h"
#include "qkv/files.h"

namespace qkv::test {

// The encoder and the tokenizer of golden/encoders/KIND, or of golden/rank for "bert", with the tensors KIND/NAME of
// golden/HEADS/heads.safetensors and the labels of golden/HEADS/config.json.
struct HeadFolder : TemporaryFolder {
  HeadFolder(const std::string& kind, const std::string& heads) {
    const std::string golden = QKV_TEST_DATA "/golden/",
                      from = golden + (kind == "bert" ? "rank/" : "encoders/" + kind + "/");
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) {
      if (std::filesystem::exists(from + name)) std::filesystem::copy_file(from + name, *this / name);
    }
    nlohmann::json config = nlohmann::json::parse(slurp(from + "config.json"));
    config.erase("architectures");
    config.erase("id2label");
    const auto of_heads = nlohmann::json::parse(slurp(golden + heads + "/config.json"));
    if (of_heads.contains("id2label")) config["id2label"] = of_heads["id2label"];
    put("config.json", config.dump());
    SafeTensors weights = read_safetensors(from + "model.safetensors");
    std::erase_if(weights.tensors, [](const auto& each) { return each.first.starts_with("classifier."); });
    for (const auto& [name, tensor] : read_safetensors(golden + heads + "/heads.safetensors").tensors) {
      if (name.starts_with(kind + "/")) weights.tensors[name.substr(kind.size() + 1)] = tensor;
    }
    write_safetensors(*this / "model.safetensors", weights);
  }
};

}  // namespace qkv::test
