// Weight times length of the value as it leaves the output projection, against plain loops over the model's weights.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "explain/example.h"
#include "qkv/explain/encoded_text.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/translated_text.h"

namespace qkv {
namespace {

// Sums of so many products of f32 numbers, computed in f64, where order alone differs.
constexpr double kOrder = 1e-12;

// ||v_j W_O^h|| by loops: sum over o of (sum over e of v[j, e] W_O[o, h * size + e])^2.
double length_by_loops(const HeadTrace& trace, const Tensor& out_weight, std::int64_t key) {
  const std::int64_t size = trace.value.size(1);
  double squares = 0;
  for (std::int64_t o = 0; o < out_weight.size(0); ++o) {
    double sum = 0;
    for (std::int64_t e = 0; e < size; ++e) {
      sum += trace.value.view().at<double>({key, e}) *
             static_cast<double>(out_weight.view().at<float>({o, trace.index.head * size + e}));
    }
    squares += sum * sum;
  }
  return std::sqrt(squares);
}

template <class Model>
std::map<std::string, Tensor> weights_of(const Model& model) {
  std::map<std::string, Tensor> all;
  model.visit([&](const std::string& name, const Parameter& own) { all[name] = own.value; });
  return all;
}

void expect_norms(const Explainable& input, const std::map<std::string, Tensor>& tensors,
                  const std::vector<std::string>& before, const std::vector<std::string>& after) {
  const HeadSurvey survey = survey_heads(input);
  for (const HeadSurvey::Entry& entry : survey.heads) {
    const std::size_t site = entry.index.site;
    const HeadTrace trace = trace_head(input, entry.index);
    const Tensor& out = tensors.at(before[site] + std::to_string(entry.index.layer) + after[site] + "out_proj.weight");
    ASSERT_EQ(trace.value_norms.shape(), trace.weights.shape());
    double sum = 0;
    for (std::int64_t j = 0; j < trace.weights.size(1); ++j) {
      const double length = length_by_loops(trace, out, j);
      EXPECT_NEAR(trace.value_lengths.data<double>()[j], length, kOrder);
      EXPECT_NEAR(entry.value_lengths.data<double>()[j], length, kOrder);
      for (std::int64_t i = 0; i < trace.weights.size(0); ++i) {
        const double norm = trace.weights.view().at<double>({i, j}) * length;
        EXPECT_NEAR(trace.value_norms.view().at<double>({i, j}), norm, kOrder);
        sum += norm;
      }
    }
    EXPECT_NEAR(entry.value_norm, sum / static_cast<double>(trace.weights.size(0)), kOrder);
  }
}

TEST(ValueNorms, OfAnEncoder) {
  const Bert model = Bert::load(QKV_TEST_DATA "/golden/bert/tiny");
  for (const std::size_t count : {1, 5}) {
    Encoding text;
    for (std::size_t i = 0; i < count; ++i) {
      text.ids.push_back(static_cast<std::int32_t>(3 + 2 * i));
      text.tokens.push_back(std::to_string(i));
      text.type_ids.push_back(0);
      text.special.push_back(0);
    }
    expect_norms(EncodedText(model, text), weights_of(model), {"layers."}, {".self_attn."});
  }
}

TEST(ValueNorms, OfAllThreeAttentionsOfATranslation) {
  const Translator translator = Translator::load(QKV_SOURCE_DIR "/models/en-es");
  expect_norms(TranslatedText(translator, "You are welcome"), weights_of(translator.model()),
               {"encoder.layers.", "decoder.layers.", "decoder.layers."},
               {".self_attn.", ".self_attn.", ".multihead_attn."});
}

}  // namespace
}  // namespace qkv
