// Seq2Seq: every option together with every other beside torch, differences of the loss, its folder and its steps.
#include "qkv/models/seq2seq.h"

#include <gtest/gtest.h>

#include <cmath>

#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "models/seq2seq_folder.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/random.h"

namespace qkv {
namespace {

constexpr std::int32_t kPaddingToken = 10;

std::vector<Seq2SeqConfig> all_seq2seq_configs() {
  std::vector<Seq2SeqConfig> all;
  for (const auto& [kind_name, kind] : seq2seq_kinds()) {
    for (const auto& [cell_name, cell] : recurrent_cells()) {
      for (const std::int64_t target_vocab : {0, 11}) {
        for (const int layers : {1, 2}) {
          for (const int directions : {1, 2}) {
            all.push_back({.kind = kind,
                           .cell = cell,
                           .vocab = target_vocab > 0 ? 13 : 11,
                           .target_vocab = target_vocab,
                           .positions = 9,
                           .model_dim = 6,
                           .layers = layers,
                           .directions = directions,
                           .padding = kPaddingToken,
                           .start = kPaddingToken});
          }
        }
      }
    }
  }
  return all;
}

std::string name_of(const Seq2SeqConfig& config) {
  std::string name;
  for (const auto& [kind_name, kind] : seq2seq_kinds()) name += kind == config.kind ? kind_name : "";
  for (const auto& [cell_name, cell] : recurrent_cells()) name += cell == config.cell ? " " + cell_name : "";
  return name + (config.target_vocab > 0 ? " two tables" : "") + " " + std::to_string(config.layers) + " layers " +
         std::to_string(config.directions) + " directions";
}

PairBatch pairs_of(const std::vector<TokenPair>& pairs) {
  PairBatch batch;
  std::vector<std::int64_t> sources, targets;
  for (const TokenPair& pair : pairs) {
    batch.source.insert(batch.source.end(), pair.source.begin(), pair.source.end());
    batch.target.insert(batch.target.end(), pair.target.begin(), pair.target.end());
    sources.push_back(std::ssize(pair.source));
    targets.push_back(std::ssize(pair.target));
  }
  batch.source_offsets = offsets_of(sources);
  batch.target_offsets = offsets_of(targets);
  return batch;
}

PairBatch two_pairs() { return pairs_of({{{3, 9, 4, 0}, {5, 1, 8, 2, 0}}, {{7, 0}, {6, 0}}}); }

// w += step * direction for all weights, directions drawn by the order; returns the sum of gradient * direction.
double move(Seq2Seq& model, double step) {
  double slope = 0;
  std::uint64_t seed = 0;
  const std::string target_table = model.config().target_vocab > 0 ? "decoder.embed_tokens.weight" : "shared.weight";
  model.update([&](const std::string& name, Parameter& own) {
    Random random(++seed);
    for (std::int64_t i = 0; i < own.value.element_count(); ++i) {
      const double direction = random.normal();
      if (name == target_table && i / model.config().model_dim == kPaddingToken) continue;  // has no gradient
      own.value.data<double>()[i] += step * direction;
      if (own.has_gradient()) slope += own.gradient.data<double>()[i] * direction;
    }
  });
  return slope;
}

TEST(Seq2Seq, IsTorchs) {
  const SafeTensors golden = read_safetensors(QKV_TEST_DATA "/golden/seq2seq/seq2seq.safetensors");
  const auto lengths = [&](const char* name) {
    const Tensor& tensor = golden.tensors.at(name);
    return offsets_of(std::span(tensor.data<std::int64_t>(), static_cast<std::size_t>(tensor.size(0))));
  };
  const auto ids = [&](const char* name) {
    const Tensor& tensor = golden.tensors.at(name);
    return std::vector<std::int32_t>(tensor.data<std::int32_t>(), tensor.data<std::int32_t>() + tensor.size(0));
  };
  const PairBatch batch{.source = ids("source"),
                        .target = ids("target"),
                        .source_offsets = lengths("source_lengths"),
                        .target_offsets = lengths("target_lengths")};
  int cases = 0;
  for (const auto& [kind_name, kind] : seq2seq_kinds()) {
    for (const auto& [cell_name, cell] : recurrent_cells()) {
      for (const int directions : {1, 2}) {
        const std::string name = kind_name + "_" + cell_name + "_" + std::to_string(directions) + ".";
        if (!golden.tensors.contains(name + "loss")) continue;
        SCOPED_TRACE(name);
        ++cases;
        for (const Dtype dtype : {Dtype::f64, Dtype::f32}) {
          std::map<std::string, Tensor> tensors;
          const std::string start = name + "weights.";
          for (const auto& [key, tensor] : golden.tensors) {
            if (key.starts_with(start)) tensors[key.substr(start.size())] = tensor;
          }
          Weights weights(tensors, "golden", dtype);
          Seq2Seq model({.kind = kind,
                         .cell = cell,
                         .vocab = 11,
                         .positions = 9,
                         .model_dim = 4,
                         .layers = 2,
                         .directions = directions,
                         .padding = kPaddingToken,
                         .start = kPaddingToken},
                        weights);
          weights.expect_empty();
          // Relative to the largest element of all gradients: those of w_query and w_key are differences of much larger
          // numbers.
          double largest = 0;
          for (const auto& [key, tensor] : golden.tensors) {
            if (!key.starts_with(name + "gradients.")) continue;
            for (const double value : testing::values(tensor)) largest = std::max(largest, std::abs(value));
          }
          const auto expect_same = [&](const Tensor& given, const std::string& part) {
            EXPECT_LE(testing::difference(given, golden.tensors.at(name + part)),
                      largest * (dtype == Dtype::f64 ? 1e-12 : 1e-5))
                << part;
          };
          expect_same(model.logits(batch), "logits");
          model.update([](const std::string&, Parameter& own) { own.want_gradient(); });
          const LossSum sum = model.backward(batch, {});
          const double loss = *golden.tensors.at(name + "loss").data<double>();
          EXPECT_NEAR(sum.sum, loss, loss * (dtype == Dtype::f64 ? 1e-12 : 1e-5));
          EXPECT_EQ(sum.count, 7);
          EXPECT_NEAR(model.loss(batch).sum, sum.sum, 1e-12 + (dtype == Dtype::f64 ? 0 : 1e-5));
          model.visit(
              [&](const std::string& key, const Parameter& own) { expect_same(own.gradient, "gradients." + key); });
        }
      }
    }
  }
  EXPECT_EQ(cases, 24);
}

TEST(Seq2Seq, GradientsAreTheSlopesOfTheLoss) {
  const PairBatch batch = pairs_of({{{3}, {0}}, {{3, 9, 4, 0}, {5, 1, 8, 2, 0}}, {{7, 7}, {6, 0}}});
  for (const Seq2SeqConfig& config : all_seq2seq_configs()) {
    if (config.cell == RecurrentCell::rnn_relu) continue;  // has a bend, which a step may cross
    for (const double dropout : {0.0, 0.3}) {
      SCOPED_TRACE(name_of(config) + (dropout > 0 ? " dropout" : ""));
      Weights weights = initial_weights(7, Dtype::f64);
      Seq2Seq model(config, weights);
      move(model, 0.1);
      model.update([](const std::string&, Parameter& own) { own.want_gradient(); });
      const EncoderDecoderTrainingOptions options{.dropout = dropout, .label_smoothing = 0.1, .seed = 5};
      model.backward(batch, options);
      constexpr double kStep = 1e-5;
      const double slope = move(model, kStep);
      const double above = model.backward(batch, options).sum;
      move(model, -2 * kStep);
      const double below = model.backward(batch, options).sum;
      // The error of a difference quotient is of the order of the step squared.
      EXPECT_NEAR((above - below) / (2 * kStep), slope, 1e-5 * std::max(1.0, std::abs(slope)));
    }
  }
}

TEST(Seq2Seq, FoldersOpenAgainAsTheSame) {
  const test::TemporaryFolder folder;
  for (const Seq2SeqConfig& config : all_seq2seq_configs()) {
    SCOPED_TRACE(name_of(config));
    const Seq2Seq model = Seq2Seq::initial(config, 3);
    model.save(folder / "");
    EXPECT_TRUE(EncoderDecoder::is_in(folder / ""));
    EXPECT_EQ(Seq2Seq::check(folder / ""), config);
    EXPECT_EQ(EncoderDecoder::check(folder / ""), config.tokens());
    test::expect_equal(EncoderDecoder::load(folder / "")->logits(two_pairs()), model.logits(two_pairs()));
  }
}

TEST(Seq2Seq, StepsGiveWhatTheWholePassGives) {
  const PairBatch batch = two_pairs();
  for (const Seq2SeqConfig& config : all_seq2seq_configs()) {
    SCOPED_TRACE(name_of(config));
    const Seq2Seq model = Seq2Seq::initial(config, 3);
    const Tensor logits = model.logits(batch);
    ASSERT_EQ(logits.shape(), (Dims{7, config.output_vocab()}));
    const auto targets = model.targets(batch.source, batch.source_offsets);
    EXPECT_EQ(targets->vocab(), config.output_vocab());
    // Two beams of the first source, whose second one is continued, and one of the second, which ends after two tokens.
    std::vector<std::int64_t> parents{0, 1};
    std::vector<std::int32_t> tokens{config.start, config.start};
    for (std::int64_t t = 0; t < 5; ++t) {
      const TensorView rows = targets->step(parents, tokens);
      // The same bits, but of dot products: single queries have a kernel of their own, which adds in another order.
      const double most = config.kind == Seq2SeqKind::dot ? 2e-6 : 0;
      for (std::int64_t j = 0; j < config.output_vocab(); ++j) {
        EXPECT_NEAR(rows.at<float>({t == 0 ? 0 : 1, j}), logits.view().at<float>({t, j}), most);
        if (t < 2) {
          EXPECT_NEAR(rows.at<float>({t == 0 ? 1 : 2, j}), logits.view().at<float>({5 + t, j}), most);
        }
      }
      parents = t == 0 ? std::vector<std::int64_t>{0, 0, 1} : std::vector<std::int64_t>{0, 1};
      tokens = {9, batch.target[static_cast<std::size_t>(t)]};
      if (t == 0) tokens.push_back(batch.target[5]);
    }
  }
}

TEST(Seq2Seq, BitsDependOnNeitherCompanyNorThreads) {
  for (const Seq2SeqConfig& config : all_seq2seq_configs()) {
    SCOPED_TRACE(name_of(config));
    Seq2Seq model = Seq2Seq::initial(config, 4);
    const Tensor both = model.logits(two_pairs(), {.threads = 1});
    EXPECT_TRUE(testing::same_bits(model.logits(two_pairs(), {.threads = 5}), both));
    const Tensor first = model.logits(pairs_of({{{3, 9, 4, 0}, {5, 1, 8, 2, 0}}}));
    EXPECT_TRUE(testing::same_bits(first, Tensor::copy(both.view().slice(0, 0, 5))));
  }
}

TEST(Seq2Seq, RefusesWhatItCannotBe) {
  const test::TemporaryFolder folder;
  const auto message = [](const auto& call) {
    try {
      call();
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const Seq2SeqConfig config = all_seq2seq_configs().front();
  const Seq2Seq model = Seq2Seq::initial(config, 1);
  EXPECT_EQ(message([&] { model.logits(pairs_of({{{1, 2, 3, 4, 5, 6, 7, 8, 9, 0}, {0}}})); }),
            "positions: sequence 0 has 10 rows; there are positions for 0 to 9");
  EXPECT_EQ(message([&] { model.logits(pairs_of({{{11}, {0}}})); }), "embedding: id 11 is not in a table of 11 rows");
  model.save(folder / "");
  const std::string json = test::slurp(folder / "config.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = json;
    changed.replace(changed.find(from), from.size(), to);
    folder.put("config.json", changed);
    const std::string text = message([&] { EncoderDecoder::load(folder / ""); });
    return text.substr(std::min(text.size(), text.find("config.json")));
  };
  EXPECT_EQ(with("\"fixed\"", "\"bent\""),
            "config.json: attention must be \"fixed\", \"additive\", \"dot\" or \"bilinear\"");
  EXPECT_EQ(with("\"d_model\": 6", "\"d_model\": 0"), "config.json: d_model is 0, must be 1 to 1048576");
  EXPECT_EQ(with("\"encoder_directions\": 1", "\"encoder_directions\": 3"),
            "config.json: encoder_directions is 3, must be 1 to 2");
  EXPECT_EQ(with("qkv-seq2seq", "gru"),
            "config.json: model_type is \"gru\"; the supported encoder-decoders are \"marian\", \"bart\", \"mbart\" "
            "and \"qkv\"");
}

}  // namespace
}  // namespace qkv
