// Every key of a training's config, once: the reader (train_config.h), `qkv train --help` and docs/training.md go by
// this table.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "io/json_document.h"
#include "train/train_config.h"

namespace qkv::training {

struct TrainKey {
  std::string section, name;
  std::string type;       // "integer from 1"
  std::string unit;       // "tokens"; "-": none
  std::string otherwise;  // what it is where the config does not say, as JSON; empty: the config must say
  std::string meaning;
  std::function<void(const io::JsonValue&, TrainConfig&)> read;
  std::function<std::string(const TrainConfig&)> show;  // the value of a config, as JSON
};

// In the order of the sections, and of importance.
std::span<const TrainKey> train_keys();

// The table as text for a terminal, and as a table of Markdown.
std::string train_keys_text();
std::string train_keys_markdown();

}  // namespace qkv::training
