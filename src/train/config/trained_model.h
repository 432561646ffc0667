// The model that a translator's config trains, whatever its family.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "qkv/models/encoder_decoder.h"

namespace qkv::training {

class TrainedModel {
 public:
  virtual ~TrainedModel() = default;

  virtual std::int64_t positions() const = 0;
  virtual void set_tokens(const EncoderDecoderTokens& tokens) = 0;  // but for the positions, which the config says
  virtual std::unique_ptr<EncoderDecoder> initial(std::uint64_t seed) const = 0;
  virtual std::unique_ptr<EncoderDecoder> load(const std::string& folder) const = 0;  // nullptr: of another config
  virtual const char* own_type() const = 0;                         // model_type where no class of transformers fits
  virtual std::map<std::string, std::string> identity() const = 0;  // every member of the config by name
};

// identity() and own_type() are written for each Model.
template <class Model>
class TrainedModelOf : public TrainedModel {
 public:
  using Config = std::remove_cvref_t<decltype(std::declval<const Model&>().config())>;

  std::int64_t positions() const override { return config.positions; }
  void set_tokens(const EncoderDecoderTokens& tokens) override {
    config.vocab = tokens.vocab;
    config.target_vocab = tokens.target_vocab;
    config.end = tokens.end;
    config.padding = tokens.padding;
    config.start = tokens.start;
  }
  std::unique_ptr<EncoderDecoder> initial(std::uint64_t seed) const override {
    return std::make_unique<Model>(Model::initial(config, seed));
  }
  std::unique_ptr<EncoderDecoder> load(const std::string& folder) const override {
    auto model = std::make_unique<Model>(Model::load(folder));
    return model->config() == config ? std::move(model) : nullptr;
  }
  const char* own_type() const override;
  std::map<std::string, std::string> identity() const override;

  Config config{.positions = 512};
};

template <class Number>
std::string as_identity(Number number) {
  return std::to_string(static_cast<std::int64_t>(number));
}

}  // namespace qkv::training
