// docs/arithmetic.md is complete: reference.py, plain Python that follows it, gives the bits of the library.
#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "layers/asked_layer.h"
#include "ops/rowwise/row_kernels.h"

namespace qkv::testing {
namespace {

using nlohmann::json;

json words_of(const TensorView& view) {
  json words = json::array();
  const Tensor whole = Tensor::copy(view);
  for (std::int64_t i = 0; i < whole.element_count(); ++i)
    words.push_back(std::bit_cast<std::uint32_t>(whole.data<float>()[i]));
  return words;
}

void append(json& words, const json& more) {
  for (const json& word : more) words.push_back(word);
}

// Keys p - left <= j <= p + right below length are visible; -1 leaves a side open.
struct Visible {
  std::int64_t left = -1, right = -1, length = 0;
};

// Elements that are not finite: by row and column.
struct Infinite {
  std::int64_t row, column;
  double value;
};
struct InfiniteElements {
  std::vector<Infinite> keys{}, values{};
};

void put(const std::vector<Infinite>& elements, Tensor& rows) {
  for (const Infinite& each : elements) {
    rows.data<float>()[each.row * rows.size(-1) + each.column] = static_cast<float>(each.value);
  }
}

json attention_case(const std::string& name, std::int64_t queries, std::int64_t keys, std::int64_t size, double scale,
                    Visible visible, const InfiniteElements& infinite = {}, Precision precision = Precision::exact) {
  Random random(static_cast<std::uint64_t>(queries + keys + size));
  const Dims of_queries{1, 1, queries, size}, of_keys{1, 1, keys, size};
  const Tensor q = normal(random, of_queries, Dtype::f32, 3);
  Tensor k = normal(random, of_keys), v = normal(random, of_keys);
  put(infinite.keys, k);
  put(infinite.values, v);
  Tensor out = filled(of_queries, 0), row = filled({1, 1, queries}, 0),
         lengths = Tensor::of<std::int32_t>({1}, {static_cast<std::int32_t>(keys)});
  AttentionOptions options;
  options.scale = scale;
  options.precision = precision;
  if (visible.length == 0) visible.length = keys;
  lengths.data<std::int32_t>()[0] = static_cast<std::int32_t>(visible.length);
  options.mask = Mask::window(visible.left, visible.right) & Mask::lengths(lengths);
  AttentionExtras extras;
  extras.log_sum_exp = row;
  attention(q, k, v, out, options, extras);
  json expected = words_of(out);
  append(expected, words_of(row));
  return {{"kind", "attention"},      {"name", name},         {"size", size},
          {"q", words_of(q)},         {"k", words_of(k)},     {"v", words_of(v)},
          {"scale", scale},           {"left", visible.left}, {"right", visible.right},
          {"length", visible.length}, {"out", expected}};
}

json norm_case(const std::string& name, std::int64_t size, bool centred) {
  Random random(static_cast<std::uint64_t>(size));
  const Tensor x = normal(random, {5, size}), weight = normal(random, {size}), bias = normal(random, {size});
  Tensor out = filled({5, size}, 0);
  layer_norm_rows(LayerNormRows<float>{.x = x.data<float>(),
                                       .x_stride = size,
                                       .added = nullptr,
                                       .added_stride = 0,
                                       .weight = weight.data<float>(),
                                       .bias = centred ? bias.data<float>() : nullptr,
                                       .sum = nullptr,
                                       .out = out.data<float>(),
                                       .rows = 5,
                                       .size = size,
                                       .epsilon = 1e-5,
                                       .centred = centred});
  return {{"kind", "layer_norm"},
          {"name", name},
          {"size", size},
          {"x", words_of(x)},
          {"weight", words_of(weight)},
          {"bias", centred ? words_of(bias) : json::array()},
          {"epsilon", 1e-5},
          {"centred", centred},
          {"out", words_of(out)}};
}

json gelu_case() {
  Random random(3);
  const Tensor x = normal(random, {1, 2000}, Dtype::f32, 4);
  Tensor out = Tensor::copy(x);
  activate(Activation::gelu, out.data<float>(), 2000);
  return {{"kind", "gelu"}, {"name", "gelu"}, {"size", 2000}, {"x", words_of(x)}, {"out", words_of(out)}};
}

json linear_case(std::int64_t in, std::int64_t out, WeightStorage storage = WeightStorage::full) {
  Random random(4);
  const Tensor x = normal(random, {6, in}), weight = normal(random, {out, in}), bias = normal(random, {out});
  Weights weights([&](const std::string& name, const Dims&) { return name == "weight" ? weight : bias; }, Dtype::f32,
                  storage);
  const Linear layer({.in = in, .out = out}, weights);
  return {{"kind", "linear"},
          {"name", "linear"},
          {"size", in},
          {"x", words_of(x)},
          {"weight", words_of(weight)},
          {"bias", words_of(bias)},
          {"out", words_of(layer.forward(x, 2))}};
}

TEST(ArithmeticReference, PlainPythonHasTheSameBits) {
  if (std::system("python3 -c 'import math; math.nextafter' 2>/dev/null") != 0) GTEST_SKIP() << "no Python 3.9";
  const test::TemporaryFolder folder;
  for (const Target& target : targets()) {
    if (!target.usable || !target.fused) continue;
    SCOPED_TRACE(target.name);
    select_target(target.name);
    const json cases{
        attention_case("plain", 11, 70, 24, 0.2, {}),
        attention_case("causal", 30, 30, 9, 0.5, {.right = 0}),
        attention_case("window", 20, 150, 16, -0.3, {.left = 7, .right = 90}),
        attention_case("lengths", 3, 1100, 8, 0.4, {.length = 1061}),
        attention_case("single query", 1, 1300, 33, 0.25, {}),
        attention_case("single query, negative scale", 1, 45, 16, -0.25, {.length = 31}),
        attention_case("infinite keys", 9, 140, 8, 0.3, {}, {.keys = {{13, 2, -kInfinity}}}),
        attention_case("keys that overflow", 9, 140, 8, 0.3, {}, {.keys = {{13, 2, -3e38}, {131, 2, 1e38}}}),
        attention_case("infinite values", 9, 140, 8, 0.3, {.right = 70},
                       {.values = {{5, 1, kInfinity}, {66, 2, -kInfinity}, {100, 3, kInfinity}}}),
        attention_case("single query, infinite keys and values", 1, 140, 8, 0.3, {},
                       {.keys = {{13, 2, -kInfinity}}, .values = {{5, 1, kInfinity}}}),
        norm_case("layer norm", 75, true),
        norm_case("rms norm", 64, false),
        gelu_case(),
        linear_case(530, 7)};
    const json reduced{attention_case("plain", 3, 70, 24, 0.2, {}, {}, Precision::reduced),
                       attention_case("causal", 34, 34, 9, 0.5, {.right = 0}, {}, Precision::reduced),
                       attention_case("window", 3, 150, 70, -0.3, {.left = 7, .right = 90}, {}, Precision::reduced),
                       attention_case("lengths", 2, 1100, 8, 0.4, {.length = 1061}, {}, Precision::reduced),
                       linear_case(75, 7, WeightStorage::reduced)};
    for (const auto& [script, asked] : {std::pair{"reference.py", cases}, std::pair{"reduced.py", reduced}}) {
      folder.put("cases.json", asked.dump());
      const std::string command =
          std::string("python3 '") + QKV_TEST_DATA + "/arithmetic/" + script + "' '" + (folder / "cases.json") + "'";
      EXPECT_EQ(std::system(command.c_str()), 0) << script;
    }
  }
  select_target("");
}

}  // namespace
}  // namespace qkv::testing
