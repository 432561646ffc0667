// A head, a survey, measures and a picture whose numbers are chosen by hand, for the tests of texts, drawings and JSON.
#pragma once

#include "explain/example.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/picture_attention.h"
#include "qkv/explain/token_measures.h"

namespace qkv::test {

// It attends to the last token, then to the first one.
inline HeadTrace chosen_trace() {
  HeadTrace trace;
  trace.title = "Head 0";
  trace.heads = 1;
  trace.model_dim = 2;
  trace.tokens = trace.keys = {"the", "\x1b[31m", "the"};
  trace.query = trace.key = trace.value = trace.output = matrix(3, 2, {1, 2, 3, 4, 5, 6});
  trace.scores = trace.logits = matrix(3, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  trace.weights = trace.value_norms = filled(3, 3, [](auto, auto j) { return j == 0 ? 0.25 : j == 1 ? 0.125 : 0.625; });
  trace.log_sum_exp = trace.value_lengths = Tensor::of<double>({3}, {1, 2, 3});
  trace.target = "avx2";
  return trace;
}

// A head of each pattern, by strength 0.9 to 0.5.
inline HeadSurvey chosen_survey() {
  HeadSurvey survey;
  survey.attentions = {.sequences = {{.name = "tokens",
                                      .tokens = {"[CLS]", "un", "##do", "it"},
                                      .words = {{"undo", "it"}, {-1, 0, 0, 1}}}},
                       .sites = {{.name = "heads", .layers = 3, .heads = 3}}};
  survey.sublayers = {{"layers.0.output", "attention", 0, 2, {1, 2, 0.5, 0}},
                      {"embedding", "embedding", 0, 2, {3, 4, 5, 6}}};
  survey.heads = {{{0, 0}, {.entropy = 0.25, .distance = 1, .previous = 0.6}, HeadPattern::previous, {}, 1.5},
                  {{0, 1}, {.entropy = 1.25, .first = 0.45, .next = 0.4}, HeadPattern::spread},
                  {{0, 2}, {.entropy = -1e-9, .distance = -1e-9, .first = -1e-9}},
                  {{1, 0}, {.next = 0.9}, HeadPattern::next},
                  {{1, 1}, {.itself = 0.7}, HeadPattern::itself},
                  {{1, 2}, {.first = 0.8}, HeadPattern::first},
                  {{2, 0}, {.separators = 0.55}, HeadPattern::separators},
                  {{2, 1}, {.next = 0.5}, HeadPattern::next}};
  for (HeadSurvey::Entry& head : survey.heads) head.value_lengths = Tensor::of<double>({4}, {1, 2, 0, 0.5});
  return survey;
}

// Of three keys, as many as the token can depend on, and two heads.
inline TokenMeasures chosen_measures() {
  TokenMeasures measures;
  measures.attentions = {.sequences = {{.name = "target", .tokens = {"un", "do", "it", "end"}}},
                         .sites = {{.name = "encoder_decoder", .title = "Cross", .layers = 1, .heads = 2}}};
  measures.token = 1;
  measures.log_probability = -0.5;
  measures.keys = {{0,
                    {{Measure::weight, {0.25, 0.125, 0.625}, 0.5},
                     {Measure::value_norm, {1, 2, 3}, -1},
                     {Measure::gradient, {-0.5, -0.0, 0.25}, {}},
                     {Measure::rollout, {0.25, 0.25, 0.5}, 0.75},
                     {Measure::knock_out, {0.5, -2, 0.5}, 1}}}};
  measures.heads = {{0, 0, 0}, {0, 1, 0}};
  measures.by_heads = {{Measure::value_norm, {1, 2}, 1}, {Measure::knock_out, {0.125, 0.25}, 1}};
  return measures;
}

// 1 x 2 patches of weights 0.1 and 0.9 on a picture of two colours.
inline Tensor chosen_view() {
  Tensor view = Tensor::zeros({2, 4, 3}, Dtype::u8);
  for (int y = 0; y < 2; ++y) view.data<std::uint8_t>()[(y * 4 + 3) * 3] = 200;
  return view;
}
inline PictureAttention chosen_picture() {
  const Tensor weights = matrix(1, 2, {0.1, 0.9});
  return {.grid = {1, 2},
          .token = "class",
          .heads = {{.index = {}, .summary = {.entropy = 0.5}, .to_class = 0.25, .patches = weights}},
          .rollout = weights};
}

}  // namespace qkv::test
