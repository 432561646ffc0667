// Readers of every format, as fuzz targets: any bytes are read, or refused with a FormatError.
#include "readers.h"

#include <utf8proc.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "io/arrays/gguf.h"
#include "io/arrays/safetensors_header.h"
#include "io/atomic_folder.h"
#include "io/files/files.h"
#include "io/pictures/picture_formats.h"
#include "lab/models/recurrent_encoder_decoder.h"
#include "pipelines/generator_session.h"
#include "pipelines/pipeline_folder.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/models/image_processor.h"
#include "qkv/models/language_model.h"
#include "qkv/models/text_encoder.h"
#include "qkv/models/transformer_encoder_decoder.h"
#include "qkv/models/vit.h"
#include "qkv/pictures.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text_lines.h"
#include "text/tokenizer_parts.h"
#include "train/checkpoints.h"
#include "train/config/classifier_config.h"
#include "train/config/train_config.h"
#include "train/training_log.h"

namespace qkv::fuzz {
namespace {

// A folder that is there until the program ends, with these bytes as the file `name`.
std::string folder_with(const std::string& name, std::string_view bytes) {
  static const struct Folder {
    Folder() {
      std::string pattern = (std::filesystem::temp_directory_path() / "qkv_fuzz_XXXXXX").string();
      if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
      path = pattern;
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path;
  } folder;
  const std::filesystem::path file = folder.path / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return folder.path.string();
}

// Any bytes as a safetensors file.
void any_safetensors(std::string_view bytes) { io::parse_safetensors(bytes, "fuzz"); }

// Any tensors as a session, with the digest that they should have.
void any_session(std::string_view bytes) {
  static const LanguageModel model = [] {
    const TransformerLayerConfig layer{
        .model_dim = 4, .heads = 2, .ff_dim = 4, .kv_heads = 1, .rotary = RotaryConfig{}};
    Weights weights = initial_weights(1);
    return LanguageModel({.vocab = 8, .positions = 16, .model_dim = 4, .layers = {layer}}, weights);
  }();
  SafeTensors file = io::parse_safetensors(bytes, "fuzz");
  file.metadata["digest"] = digest_of_session(file);
  const GeneratorSession session = session_of(std::move(file), "fuzz", model, "model");
  if (session.cache.layers[0].self.length(0) + 1 != std::ssize(session.ids)) __builtin_trap();
}

// Any bytes as the index of weights in several files: no name in it leaves the folder.
void any_safetensors_index(std::string_view bytes) {
  for (const auto& [file, tensors] : io::parse_safetensors_index(bytes, "fuzz")) {
    if (tensors.empty() || std::filesystem::path("folder") / file != "folder/" + file) __builtin_trap();
    if (std::filesystem::path(file).filename() != file || file.find('\0') != std::string::npos) __builtin_trap();
  }
}

// Any bytes as a GGUF file, and the tokenizer in it.
void any_gguf(std::string_view bytes) {
  const std::string path = folder_with("model.gguf", bytes) + "/model.gguf";
  io::GgufFile file(path);
  for (const io::GgufTensor& tensor : file.tensors()) {
    if (file.read(tensor).shape() != tensor.shape()) __builtin_trap();
  }
  const Encoding encoding = Tokenizer::load(path).encode("The caf\xC3\xA9 12 \n");
  if (encoding.ids.size() != encoding.offsets.size()) __builtin_trap();
}

// Any bytes as an .npy file.
void any_npy(std::string_view bytes) { io::parse_npy(bytes, "fuzz"); }

// Any bytes as a CSV matrix.
void any_csv(std::string_view bytes) { io::parse_csv(bytes, "fuzz"); }

// Any bytes as a JSON matrix.
void any_json(std::string_view bytes) { parse_json_matrix(bytes, "fuzz"); }

// Any bytes as a tokenizer.json.
void any_tokenizer_json(std::string_view bytes) {
  const Encoding encoding = Tokenizer::parse(bytes, "fuzz").encode("The [MASK] caf\xC3\xA9.");
  if (encoding.ids.size() != encoding.offsets.size()) __builtin_trap();
}

// Any bytes as the SentencePiece model of a Marian tokenizer.
void any_marian_tokenizer(std::string_view bytes) {
  constexpr const char* kVocabulary = R"({"</s>": 0, "<unk>": 1, "a": 2})";
  const auto parts = text::parse_marian_tokenizer({bytes, "fuzz"}, {kVocabulary, "fuzz"}, 3);
  auto text = text::to_characters(">>fr<< The cat\t\xEF\xBC\xA1 e\xCC\x81.");
  for (const auto& word : parts.pre_tokenizer(text)) {
    std::vector<text::Piece> pieces;
    parts.model->tokenize(text::CharacterSpan(text).subspan(word.begin, word.end - word.begin), pieces);
    if (pieces.empty()) __builtin_trap();
  }
}

// Any bytes as the config.json of an encoder: what is accepted is a model that can be.
void any_bert_config(std::string_view bytes) {
  const TextEncoderConfig config = TextEncoder::read_config(folder_with("config.json", bytes));
  if (config.padding < -1 || config.padding >= config.vocab || config.positions < 1) __builtin_trap();
  if (config.heads < 1 || config.model_dim % config.heads != 0) __builtin_trap();
}

// Any bytes as the config.json of an encoder-decoder: what is accepted is a model that can be.
void any_marian_config(std::string_view bytes) {
  const std::string folder = folder_with("config.json", bytes);
  try {
    EncoderDecoder::is_in(folder);
    RecurrentEncoderDecoder::check(folder);
  } catch (const FormatError&) {
  } catch (const IoError&) {  // of a recurrent one, whose config is right: there are no weights
  }
  const TransformerEncoderDecoderConfig config = TransformerEncoderDecoder::read_config(folder);
  if (config.model_dim % config.encoder_heads != 0 || config.model_dim % config.decoder_heads != 0) __builtin_trap();
  for (const std::int32_t token : {config.end, config.padding, config.start}) {
    if (token < 0 || token >= config.vocab) __builtin_trap();
  }
}

// Any bytes as the config.json of a Vision Transformer: what is accepted is a model that can be.
void any_vit_config(std::string_view bytes) {
  const VitConfig config = Vit::read_config(folder_with("config.json", bytes));
  if (config.heads < 1 || config.model_dim % config.heads != 0 || config.ff_dim < 1) __builtin_trap();
  if (config.patch.height < 1 || config.patch.height > config.picture.height) __builtin_trap();
  if (config.patch.width < 1 || config.patch.width > config.picture.width) __builtin_trap();
  if (config.labels.empty()) __builtin_trap();
}

// Any bytes as the config of a classifier's training.
void any_classifier_config(std::string_view bytes) {
  const auto config = training::read_classifier_config(folder_with("train.json", bytes) + "/train.json");
  if (config.training.steps < 1 && config.training.epochs < 1) __builtin_trap();
  if (config.model.model_dim % config.model.heads != 0 || config.patch > config.picture) __builtin_trap();
}

// Any bytes as a generation_config.json for a vocabulary of 100: tokens are inside of it, lengths and beams in bounds.
void any_generation_config(std::string_view bytes) {
  const std::string folder = folder_with("generation_config.json", bytes);
  const GenerateOptions options = read_generation(folder, 100).options;
  if (options.start < 0 || options.start >= 100) __builtin_trap();
  if (options.beams < 1 || options.beams > kMaxBeams || options.max_length < 1) __builtin_trap();
}

// The same for a language model.
void any_text_generation_config(std::string_view bytes) {
  const TextGeneration text = read_text_generation(folder_with("generation_config.json", bytes), 100);
  for (const std::int32_t end : text.options.ends) {
    if (end < 0 || end >= 100) __builtin_trap();
  }
  if (text.max_length.value_or(1) < 1 || text.max_new_tokens.value_or(1) < 1) __builtin_trap();
  if (text.options.sampling && !(text.options.sampling->temperature > 0)) __builtin_trap();
}

// Any bytes as the config.json of a language model: what is accepted is a model that can be.
void any_language_config(std::string_view bytes) {
  const LanguageModelConfig config = LanguageModel::read_config(folder_with("config.json", bytes));
  if (config.layers.empty() || config.positions < 1 || config.vocab < 1) __builtin_trap();
  for (const TransformerLayerConfig& layer : config.layers) {
    const std::int64_t kv_heads = layer.kv_heads == 0 ? layer.heads : layer.kv_heads;
    if (layer.heads % kv_heads != 0 || layer.model_dim != config.model_dim) __builtin_trap();
    if (layer.rotary && layer.rotary->dims > layer.head_dim) __builtin_trap();
  }
}

struct File {
  const char *name, *good;
};
constexpr File kFiles[] = {
    {"modules.json", R"([{"path": "", "type": "x.Transformer"}, {"path": "pool", "type": "x.Pooling"}])"},
    {"pool/config.json", R"({"embedding_dimension": 12, "pooling_mode": "cls"})"},
    {"sentence_bert_config.json", "{}"},
    {"tokenizer_config.json", "{}"},
    {"config_sentence_transformers.json", "{}"}};

// Behind a digit any bytes as one of the files of sentence-transformers; the others are as they should be.
void any_sentence_folder(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::size_t chosen = static_cast<unsigned char>(bytes[0] - '0') % std::size(kFiles);
  std::string folder;
  for (std::size_t i = 0; i < std::size(kFiles); ++i) {
    folder = folder_with(kFiles[i].name, i == chosen ? bytes.substr(1) : kFiles[i].good);
  }
  try {
    const SentenceFolder found = read_sentence_folder(folder, 12);
    if (found.max_length < 0) __builtin_trap();
  } catch (const IoError&) {  // a module in a folder that is not there
  }
}

// Any bytes as pairs of texts: no side is empty or has a tab or the end of a line in it.
void any_pairs(std::string_view bytes) {
  for (const TextPair& pair : read_pairs(folder_with("pairs.tsv", bytes) + "/pairs.tsv")) {
    for (const std::string& side : {pair.source, pair.target}) {
      if (side.empty() || side.find_first_of("\t\n") != std::string::npos) __builtin_trap();
    }
  }
}

// Any bytes as the config of a training.
void any_train_config(std::string_view bytes) {
  const auto config = training::read_train_config(folder_with("train.json", bytes) + "/train.json");
  if (config.training.steps < 1 || config.model->positions() < 1) __builtin_trap();
}

// Any bytes as the manifest of a checkpoint.
void any_manifest(std::string_view bytes) {
  folder_with("state.json", "{}");
  try {
    io::verify_folder(folder_with("manifest.json", bytes));
  } catch (const IoError&) {  // a file that is not there
  }
}

// Any bytes as the log of a training, to be gone on with from step 100.
void any_training_log(std::string_view bytes) {
  const training::TrainingLog log(folder_with("log.jsonl", bytes) + "/log.jsonl", 100);
  for (const training::CurvePoint& point : log.training()) {
    if (point.step < 0 || point.step > 100) __builtin_trap();
  }
}

// Any bytes as the state of a checkpoint: no number of it is negative.
void any_checkpoint_state(std::string_view bytes) {
  const training::Checkpoint found = training::read_state(folder_with("state.json", bytes));
  const training::LoopState& state = found.state;
  for (const std::int64_t count : {state.step, state.epoch, state.batch, state.since_log.count, state.best_step,
                                   state.waits, found.identity.steps, found.identity.patience}) {
    if (count < 0) __builtin_trap();
  }
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    utf8proc_int32_t code = 0;
    const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &code);
    if (size <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

void any_line(std::string_view line, std::int64_t number) {
  if (text_of_line(line, number, {.exact = true}) != line) __builtin_trap();
  const std::string replaced = text_of_line(line, number, {.replace_invalid = true});
  try {
    const std::string text = text_of_line(line, number);
    if (!is_utf8(text) || text.find('\0') != std::string::npos || text != replaced ||
        text.ends_with('\r') != line.ends_with("\r\r"))
      __builtin_trap();
  } catch (const FormatError&) {
    if (is_utf8(line) && line.find('\0') == std::string_view::npos) __builtin_trap();
  }
}

// Any bytes as lines of text: each is UTF-8 without zero bytes afterwards, unless it was to be taken as it is.
void any_text_lines(std::string_view bytes) {
  for (std::int64_t number = 1;; ++number) {
    const std::size_t end = bytes.find('\n');
    any_line(bytes.substr(0, end), number);
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
  }
}

// Any bytes as a PNG.
void any_png(std::string_view bytes) {
  if (!bytes.starts_with(io::kPngMagic)) return;
  const Tensor picture = parse_picture(bytes, "fuzz");
  if (picture.size(0) * picture.size(1) > kMostPixels || picture.size(2) != 3) __builtin_trap();
}

// Any bytes as a JPEG.
void any_jpeg(std::string_view bytes) {
  if (!bytes.starts_with(io::kJpegMagic)) return;
  const Tensor picture = parse_picture(bytes, "fuzz");
  if (picture.size(0) * picture.size(1) > kMostPixels || picture.size(2) != 3) __builtin_trap();
}

// Any bytes as a preprocessor_config.json: what is accepted is a processor that can be.
void any_image_processor(std::string_view bytes) {
  ImageProcessor::load(folder_with("preprocessor_config.json", bytes));
}

constexpr Target kTargets[] = {
    {"safetensors", any_safetensors},
    {"session", any_session},
    {"safetensors_index", any_safetensors_index},
    {"gguf", any_gguf},
    {"npy", any_npy},
    {"csv", any_csv},
    {"json", any_json},
    {"tokenizer_json", any_tokenizer_json},
    {"marian_tokenizer", any_marian_tokenizer},
    {"bert_config", any_bert_config},
    {"marian_config", any_marian_config},
    {"vit_config", any_vit_config},
    {"classifier_config", any_classifier_config},
    {"language_config", any_language_config},
    {"generation_config", any_generation_config},
    {"text_generation_config", any_text_generation_config},
    {"sentence_folder", any_sentence_folder},
    {"pairs", any_pairs},
    {"train_config", any_train_config},
    {"manifest", any_manifest},
    {"training_log", any_training_log},
    {"checkpoint_state", any_checkpoint_state},
    {"text_lines", any_text_lines},
    {"png", any_png},
    {"jpeg", any_jpeg},
    {"image_processor", any_image_processor},
};

}  // namespace

const std::span<const Target> kReaders = kTargets;

}  // namespace qkv::fuzz
