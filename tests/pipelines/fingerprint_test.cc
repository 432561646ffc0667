// Fingerprints: what must change them, and what must not; and what they promise.
#include "qkv/pipelines/fingerprint.h"

#include "attention/attention_testing.h"
#include "core/sha256.h"
#include "io/files_for_test.h"
#include "qkv/files.h"
#include "qkv/pipelines/certify.h"
#include "qkv/pipelines/fill_mask.h"
#include "qkv/pipelines/generator.h"
#include "qkv/pipelines/question_answerer.h"
#include "qkv/pipelines/reranker.h"
#include "qkv/pipelines/tagger.h"
#include "qkv/pipelines/text_classifier.h"
#include "qkv/target.h"
#include "qkv/version.h"
#include "stop_for_test.h"

namespace qkv {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

const std::string kGoldenRoot = QKV_TEST_DATA "/golden/";

// FIPS 180-4's own examples, and a text that ends where the length no longer fits its block.
TEST(Sha256Digest, IsThatOfTheStandard) {
  const auto digest = [](const std::string& text) {
    Sha256 all, bytes;
    all.add(text.data(), text.size());
    for (const char& c : text) bytes.add(&c, 1);
    const std::string whole = all.hexadecimal();
    EXPECT_EQ(bytes.hexadecimal(), whole);
    return whole;
  };
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// A copy of a golden folder, to be changed.
class ChangedFolder : public test::TemporaryFolder {
 public:
  explicit ChangedFolder(const std::string& name) { fs::copy(kGoldenRoot + name, *this / ""); }

  void edit(const std::string& file, const std::function<void(json&)>& change) const {
    json content = fs::exists(*this / file) ? json::parse(test::slurp(*this / file)) : json::object();
    change(content);
    put(file, content.dump());
  }
  // Keys in the opposite order, in another layout.
  void turn_keys(const std::string& file) const {
    const auto turned = [](const auto& self, const ordered_json& value) -> ordered_json {
      ordered_json result = value;
      if (value.is_array()) {
        for (ordered_json& each : result) each = self(self, each);
      } else if (value.is_object()) {
        result = ordered_json::object();
        for (auto at = value.end(); at != value.begin();) {
          --at;
          result[at.key()] = self(self, at.value());
        }
      }
      return result;
    };
    put(file, turned(turned, ordered_json::parse(test::slurp(*this / file))).dump(3));
  }
  std::map<std::string, Tensor> tensors() const { return read_safetensors(*this / "model.safetensors").tensors; }
  void write(const std::map<std::string, Tensor>& tensors) const {
    fs::remove(*this / "model.safetensors");
    write_safetensors(*this / "model.safetensors", {.tensors = tensors});
  }
};

struct FingerprintChange {
  const char* what;
  std::function<void(const ChangedFolder&)> make;
};

std::string fingerprint_of(const ChangedFolder& folder, WeightStorage storage = WeightStorage::full) {
  return fingerprint_of_folder(folder / "", storage);
}

void expect_changes(const std::string& name, bool differ, const std::vector<FingerprintChange>& changes) {
  const std::string own = fingerprint_of(ChangedFolder(name));
  for (const FingerprintChange& change : changes) {
    const ChangedFolder folder(name);
    change.make(folder);
    EXPECT_EQ(fingerprint_of(folder) != own, differ) << name << ": " << change.what;
  }
}

void put_in_shards(const ChangedFolder& folder) {
  json index = {{"weight_map", json::object()}};
  std::map<std::string, Tensor> parts[2];
  std::size_t n = 0;
  for (auto& [name, tensor] : folder.tensors()) {
    index["weight_map"][name] = "part" + std::to_string(n % 2) + ".safetensors";
    parts[n++ % 2][name] = tensor;
  }
  fs::remove(folder / "model.safetensors");
  for (const int part : {0, 1}) {
    write_safetensors(folder / ("part" + std::to_string(part) + ".safetensors"), {.tensors = parts[part]});
  }
  folder.put("model.safetensors.index.json", index.dump());
}

// What f16 holds, so that a file in f16 has the same weights.
void round_to(const ChangedFolder& folder, std::initializer_list<Dtype> types) {
  std::map<std::string, Tensor> tensors = folder.tensors();
  for (auto& [name, tensor] : tensors) {
    if (tensor.dtype() != Dtype::f32) continue;
    for (const Dtype dtype : types) tensor = convert(tensor, dtype);
  }
  folder.write(tensors);
}

const std::vector<FingerprintChange> kSameResults = {
    {"shards", put_in_shards},
    {"order of keys in config.json", [](const auto& folder) { folder.turn_keys("config.json"); }},
    {"order of keys and tokens in tokenizer.json", [](const auto& folder) { folder.turn_keys("tokenizer.json"); }},
    {"names, comments and settings of training",
     [](const auto& folder) {
       folder.edit("config.json", [](json& config) {
         config["_name_or_path"] = "another/name";
         config["hidden_dropout_prob"] = 0.3;
         config["transformers_version"] = "9.9";
       });
     }},
    {"truncation and padding of tokenizer.json",
     [](const auto& folder) {
       folder.edit("tokenizer.json", [](json& tokenizer) { tokenizer["truncation"] = nullptr; });
     }},
    {"merges as strings",
     [](const auto& folder) {
       folder.edit("tokenizer.json", [](json& tokenizer) {
         if (!tokenizer["model"].contains("merges")) return;
         for (json& merge : tokenizer["model"]["merges"]) {
           if (merge.is_array()) merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
         }
       });
     }},
    {"a metadata file of another tool", [](const auto& folder) { folder.put("README.md", "x"); }}};

// Of the weights of a layer.
void change_one_bit(const ChangedFolder& folder, const std::string& name) {
  std::map<std::string, Tensor> tensors = folder.tensors();
  for (auto& [full_name, tensor] : tensors) {
    if (full_name.ends_with("encoder.layer." + name)) reinterpret_cast<unsigned char*>(tensor.data<float>())[0] ^= 1;
  }
  folder.write(tensors);
}

const std::vector<FingerprintChange> kOtherResults = {
    {"a bit of a bias", [](const auto& folder) { change_one_bit(folder, "1.attention.output.dense.bias"); }},
    {"a bit of a matrix", [](const auto& folder) { change_one_bit(folder, "0.attention.self.key.weight"); }},
    {"the epsilon of norms",
     [](const auto& folder) { folder.edit("config.json", [](json& config) { config["layer_norm_eps"] = 2e-5; }); }},
    {"the activation",
     [](const auto& folder) { folder.edit("config.json", [](json& config) { config["hidden_act"] = "relu"; }); }},
    {"a token that two others change with",
     [](const auto& folder) {
       folder.edit("tokenizer.json", [](json& tokenizer) {
         for (json& added : tokenizer["added_tokens"]) added["lstrip"] = !added["lstrip"].get<bool>();
       });
     }},
    {"the pooling",
     [](const auto& folder) {
       folder.put("modules.json", R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
                                      {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])");
       fs::create_directory(folder / "1_Pooling");
       const std::int64_t dim = TextEncoder::read_config(folder / "").model_dim;
       folder.put("1_Pooling/config.json", json{{"word_embedding_dimension", dim},
                                                {"pooling_mode_cls_token", true},
                                                {"pooling_mode_mean_tokens", false}}
                                               .dump());
     }},
    {"the longest text",
     [](const auto& folder) { folder.put("sentence_bert_config.json", R"({"max_seq_length": 7})"); }},
    {"a default prompt", [](const auto& folder) {
       folder.put("config_sentence_transformers.json", R"({"prompts": {"q": "query: "}, "default_prompt_name": "q"})");
     }}};

TEST(Fingerprint, StaysWhereResultsDo) {
  for (const char* name : {"encoders/roberta", "encoders/xlm_roberta"}) expect_changes(name, false, kSameResults);
}

TEST(Fingerprint, ChangesWhereResultsDo) {
  for (const char* name : {"encoders/roberta", "encoders/xlm_roberta"}) expect_changes(name, true, kOtherResults);
}

TEST(Fingerprint, IsThatOfTheWeightsWhateverTheNumbersOfTheFile) {
  const ChangedFolder narrow("encoders/roberta"), wide("encoders/roberta");
  round_to(narrow, {Dtype::f16});
  round_to(wide, {Dtype::f16, Dtype::f32});
  EXPECT_EQ(fingerprint_of(narrow), fingerprint_of(wide));
}

// The score of a piece, and two pieces that change places.
TEST(Fingerprint, KnowsScoresAndMerges) {
  expect_changes("encoders/xlm_roberta", true, {{"a score", [](const auto& folder) {
                                                   folder.edit("tokenizer.json", [](json& tokenizer) {
                                                     json& score = tokenizer["model"]["vocab"].back()[1];
                                                     score = score.get<double>() - 0.5;
                                                   });
                                                 }}});
  expect_changes("encoders/roberta", true, {{"two merges", [](const auto& folder) {
                                               folder.edit("tokenizer.json", [](json& tokenizer) {
                                                 json& merges = tokenizer["model"]["merges"];
                                                 std::swap(merges[0], merges[1]);
                                               });
                                             }}});
}

TEST(Fingerprint, SaysStorageAndClass) {
  const ChangedFolder folder("encoders/roberta");
  std::vector<std::string> all;
  for (const auto& [word, storage] : kWeightStorages) {
    if (block_bytes(storage) > 0) continue;  // of GGUF files alone
    const std::string text = fingerprint_of(folder, storage);
    EXPECT_NE(text.find("-" + std::string(word) + "-exact-"), std::string::npos) << text;
    all.push_back(text.substr(text.rfind('-')));
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::unique(all).begin(), all.end());
  for (const auto& [word, storage] : {std::pair("-q8-exact-", WeightStorage::q8), {"-q4-exact-", WeightStorage::q4}}) {
    const Generator generator = Generator::load(kGoldenRoot + "gguf/blocks.gguf", storage);
    EXPECT_NE(fingerprint(generator).find(word), std::string::npos) << fingerprint(generator);
  }
  EXPECT_NE(fingerprint_of(folder, WeightStorage::reduced).find("-bf16-reduced-"), std::string::npos);
  if (selected_target() == "avx512-bf16") {
    EXPECT_NE(fingerprint_of(folder, WeightStorage::reduced_pairs).find("-bf16-reduced_pairs-"), std::string::npos);
  }
  EXPECT_TRUE(fingerprint_of(folder).starts_with("qkv" + std::to_string(kArithmetic) + "-"));
}

// Rounded values do not always tell the unit that they are multiples of: two that are neighbours can give the same
// ones. A weight that is alone in its group is 64 units, alone in its column 127.
TEST(Fingerprint, HasTheUnitsOfRoundedWeights) {
  for (const auto& [storage, count, most] :
       {std::tuple(WeightStorage::int8, 3, 127.0f), {WeightStorage::int8_groups, 6, 64.0f}}) {
    Tensor weight = Tensor::zeros({3, 40});
    for (std::int64_t i = 0; i < count; ++i) weight.data<float>()[i % 3 * 40 + i / 3 * 32] = static_cast<float>(i + 1);
    Weights weights({{"weight", weight}}, "weights", Dtype::f32, storage);
    const Linear linear({.in = 40, .out = 3, .bias = false}, weights);
    linear.visit([&](const std::string&, const Parameter& own) {
      EXPECT_EQ(own.storage, storage);
      ASSERT_EQ(own.units.element_count(), count);
      for (std::int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(own.units.data<float>()[i], static_cast<float>(i + 1) / most);
      }
    });
  }
}

TEST(Fingerprint, IsTheSameOnEveryTargetOfAClassAndAnyThreads) {
  for (const auto& [word, storage] : kWeightStorages) {
    if (block_bytes(storage) > 0) continue;  // of GGUF files alone
    std::map<bool, std::string> of_class;
    for (const Target& target : targets()) {
      if (!target.usable) continue;
      select_target(target.name);
      const Embedder embedder = Embedder::load(kGoldenRoot + "encoders/roberta", storage);
      for (const int threads : {1, 3}) {
        const std::string text = fingerprint(embedder, {.threads = threads});
        EXPECT_NE(text.find(target.fused ? "-fused-" : "-unfused-"), std::string::npos) << text;
        std::string& known = of_class.emplace(target.fused, text).first->second;
        EXPECT_EQ(text, known) << target.name << ", " << word;
      }
    }
    select_target("");
  }
}

// Every kind of folder has one, and its searches count.
TEST(Fingerprint, IsThereForEveryKindOfModel) {
  const auto of = [](const std::string& folder) { return fingerprint_of_folder(kGoldenRoot + folder); };
  std::vector<std::string> all;
  for (const char* folder : {"encoders/roberta", "language/llama", "language/gpt2", "translate/bart", "vit/vit_bare",
                             "../../models/digits"}) {
    all.push_back(of(folder));
    EXPECT_EQ(of(folder), all.back());
  }
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::unique(all).begin(), all.end());
  const FingerprintChange beams{"beams", [](const auto& folder) {
                                  folder.edit("generation_config.json", [](json& c) { c["length_penalty"] = 0.5; });
                                }};
  for (const char* folder : {"language/gpt2", "translate/bart"}) expect_changes(folder, true, {beams});
}

// What a head or the files beside it change. All that open a folder for its head name it alike.
TEST(Fingerprint, OfAHeadKnowsItsWeightsAndItsFolder) {
  const auto all_of = [](const ChangedFolder& folder) {
    const std::string own = fingerprint(Reranker::load(folder / ""));
    EXPECT_EQ(own, fingerprint(TextClassifier::load(folder / "")));
    EXPECT_EQ(own, fingerprint_of_folder(folder / ""));
    return std::vector{own};
  };
  const auto fill_of = [](const ChangedFolder& folder) {
    return std::vector{fingerprint(FillMask::load(folder / ""))};
  };
  const auto bit_of = [](const char* name) {
    return [name](const ChangedFolder& folder) {
      std::map<std::string, Tensor> tensors = folder.tensors();
      reinterpret_cast<unsigned char*>(tensors.at(name).data<float>())[0] ^= 1;
      folder.write(tensors);
    };
  };
  const auto shorter = [](const auto& folder) { folder.put("sentence_bert_config.json", R"({"max_seq_length": 7})"); };
  const auto identity = [](const auto& folder) {
    folder.put("config_sentence_transformers.json", R"({"activation_fn": "torch.nn.modules.linear.Identity"})");
  };
  const auto multi = [](const auto& folder) {
    folder.edit("config.json", [](json& config) {
      config["id2label"] = {{"0", "other"}};
      config["label2id"] = {{"other", 0}};
    });
  };
  const auto regression = [](const auto& folder) {
    folder.edit("config.json", [](json& config) { config["problem_type"] = "regression"; });
  };
  const auto alone = [](const auto& folder) {  // as sentence-transformers 6 writes it
    folder.put("modules.json",
               R"([{"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}])");
  };
  const struct {
    const char* folder;
    std::function<void(const ChangedFolder&)> change;
    std::vector<bool> differ;
  } rows[] = {{"rank", bit_of("classifier.bias"), {true}},
              {"rank", bit_of("bert.pooler.dense.weight"), {true}},
              {"rank", shorter, {true}},
              {"rank", identity, {true}},
              {"rank", multi, {true}},
              {"rank", regression, {true}},
              {"rank", alone, {false}},
              {"fill", bit_of("cls.predictions.bias"), {true}},
              {"fill", bit_of("cls.predictions.transform.LayerNorm.weight"), {true}},
              {"fill", [](const auto& folder) { folder.put("README.md", "x"); }, {false}}};
  for (const auto& row : rows) {
    const ChangedFolder own(row.folder), other(row.folder);
    row.change(other);
    const bool fills = std::string(row.folder) == "fill";
    const auto before = fills ? fill_of(own) : all_of(own), after = fills ? fill_of(other) : all_of(other);
    for (std::size_t i = 0; i < row.differ.size(); ++i) {
      EXPECT_EQ(before[i] != after[i], row.differ[i]) << row.folder << " " << &row - rows << " " << i;
    }
  }
}

TEST(Fingerprint, OfTagsAndAnswersIsThatOfTheFolder) {
  EXPECT_EQ(fingerprint(Tagger::load(kGoldenRoot + "tags")), fingerprint_of_folder(kGoldenRoot + "tags"));
  EXPECT_EQ(fingerprint(QuestionAnswerer::load(kGoldenRoot + "answers")),
            fingerprint_of_folder(kGoldenRoot + "answers"));
}

TEST(Fingerprint, OfTheEmbedderKnowsTheLengthOfItsCalls) {
  const Embedder embedder = Embedder::load(kGoldenRoot + "encoders/roberta");
  EXPECT_NE(fingerprint(embedder, {.embedding = {.max_length = 5}}), fingerprint(embedder));
  EXPECT_EQ(fingerprint(embedder, {.embedding = {.max_length = embedder.max_length()}}), fingerprint(embedder));
}

TEST(Fingerprint, HasTheNumberOfTheDocument) {
  const std::string document = test::slurp(QKV_SOURCE_DIR "/docs/arithmetic.md");
  EXPECT_NE(document.find("Arithmetic number " + std::to_string(kArithmetic) + ":"), std::string::npos);
}

TEST(Fingerprint, EndsWhereverItIsAskedToStop) {
  const Embedder embedder = Embedder::load(kGoldenRoot + "encoders/roberta");
  test::expect_stops([&] { fingerprint(embedder, {.threads = 1}); });
  std::stop_source source;
  source.request_stop();
  EXPECT_THROW(fingerprint(embedder, {.threads = 3, .stop = source.get_token()}), Stopped);
}

TEST(Certificate, ComparesInWords) {
  const std::string own = certificate(kGoldenRoot + "encoders/roberta");
  EXPECT_EQ(difference_of_certificates(own, own), "");
  const std::string fingerprint = own.substr(0, own.find(':'));
  EXPECT_EQ(difference_of_certificates(own, fingerprint), "");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = own;
    return difference_of_certificates(own, other.replace(other.find(from), from.size(), to));
  };
  EXPECT_EQ(changed("-f32-", "-int8-"), "how weights are kept: f32 here, int8 expected");
  EXPECT_EQ(changed("qkv1", "qkv2"), "the arithmetic's number: qkv1 here, qkv2 expected");
  EXPECT_NE(changed(own.substr(own.find(':')), ":0123456789abcdef").find("this machine differs"), std::string::npos);
  for (const char* broken : {"", "qkv1", "qkv1-fused-f32-exact-12", "a-b-c-d-0123456789abcdef0123456789abcdef"}) {
    EXPECT_THROW(difference_of_certificates(own, broken), std::invalid_argument) << broken;
  }
}

TEST(Certificate, IsTheSameOnEveryTargetWithFusedMultiplyAdd) {
  for (const char* folder : {"encoders/roberta", "language/llama", "../../models/digits", "translate/bart_text"}) {
    std::string known;
    for (const Target& target : targets()) {
      if (!target.usable || !target.fused) continue;
      select_target(target.name);
      const std::string own = certificate(kGoldenRoot + folder);
      if (known.empty()) known = own;
      EXPECT_EQ(own, known) << target.name;
    }
    select_target("");
  }
}

}  // namespace
}  // namespace qkv
