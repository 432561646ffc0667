// Attention from C: arithmetic by hand, arrays with strides beside the same ones without, and what is refused.
#include "qkv/qkv.h"

namespace qkv::test {
namespace {

using Shape = std::vector<std::int64_t>;

qkv_array array_of(std::vector<float>& numbers, const Shape& shape, const Shape* strides = nullptr) {
  return {numbers.data(), QKV_FLOAT32, static_cast<int>(shape.size()), shape.data(),
          strides == nullptr ? nullptr : strides->data()};
}

// Queries of zeros: a query's output is the mean of the values that it sees, its log-sum-exp the logarithm of their
// number.
class CAttention : public ::testing::Test {
 protected:
  std::vector<float> run(const qkv_attention_options* options) {
    EXPECT_EQ(qkv_attention(&q_, &k_, &v_, &out_, options), QKV_OK) << qkv_message();
    return result_;
  }
  const Shape shape_{4, 2}, square_{4, 4}, one_{1}, rows_{4};
  std::vector<float> zeros_ = std::vector<float>(8), values_{1, 8, 3, 6, 5, 4, 7, 2}, result_ = std::vector<float>(8);
  qkv_array q_ = array_of(zeros_, shape_), k_ = q_, v_ = array_of(values_, shape_), out_ = array_of(result_, shape_);
};

TEST_F(CAttention, IsTheMeanOfWhatIsSeen) {
  EXPECT_EQ(run(nullptr), (std::vector<float>{4, 5, 4, 5, 4, 5, 4, 5}));
  std::vector<float> sums(4);
  const qkv_array log_sum_exp = array_of(sums, rows_);
  qkv_attention_options options{};
  options.causal = QKV_CAUSAL_TOP_LEFT;
  options.log_sum_exp = &log_sum_exp;
  EXPECT_EQ(run(&options), (std::vector<float>{1, 8, 2, 7, 3, 6, 4, 5}));
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(sums[i], std::log(i + 1), 1e-6);

  std::uint8_t diagonal[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0};
  const qkv_array visible{diagonal, QKV_UINT8, 2, square_.data(), nullptr};
  options = {};
  options.visible = &visible;
  EXPECT_EQ(run(&options), (std::vector<float>{1, 8, 3, 6, 5, 4, 0, 0}));

  std::int32_t two = 2;
  const qkv_array lengths{&two, QKV_INT32, 1, one_.data(), nullptr};
  options = {};
  options.lengths = &lengths;
  EXPECT_EQ(run(&options), (std::vector<float>{2, 7, 2, 7, 2, 7, 2, 7}));

  // e^0, e^0, e^0 and e^log 3: the last key counts three times.
  std::vector<float> last{0, 0, 0, std::log(3.0f)};
  const Shape row{1, 4};
  const qkv_array bias = array_of(last, row);
  options = {};
  options.bias = &bias;
  for (const float x : run(&options)) EXPECT_NEAR(x, x > 4.5 ? 5 : 4, 1e-5);
  EXPECT_NEAR(result_[0], (1 + 3 + 5 + 3 * 7) / 6.0, 1e-5);
  // A cap c makes of it c * tanh: of what is there before the bias, which is 0.
  options.soft_cap = 1;
  EXPECT_NEAR(run(&options)[0], 5, 1e-5);
}

TEST_F(CAttention, ScalesTheProducts) {
  // One query of ones, keys (0, 0) and (1, 1): logits 0 and 2 * scale.
  const Shape one_row{1, 2}, two_rows{2, 2};
  std::vector<float> ones{1, 1}, keys{0, 0, 1, 1}, values{0, 0, 1, 1}, result(2);
  const qkv_array q = array_of(ones, one_row), k = array_of(keys, two_rows), v = array_of(values, two_rows),
                  out = array_of(result, one_row);
  for (const double scale : {0.0, 1.0, -0.5}) {
    qkv_attention_options options{};
    options.scale = scale;
    ASSERT_EQ(qkv_attention(&q, &k, &v, &out, &options), QKV_OK);
    const double logit = 2 * (scale == 0 ? 1 / std::sqrt(2.0) : scale);
    EXPECT_NEAR(result[0], 1 / (1 + std::exp(-logit)), 1e-6) << scale;
  }
}

// [length, heads, size] with strides is [heads, length, size].
TEST_F(CAttention, TakesStrides) {
  constexpr std::int64_t kLength = 5, kHeads = 3, kSize = 4;
  const Shape shape{kHeads, kLength, kSize}, strides{kSize, kHeads * kSize, 1};
  std::vector<float> turned(kHeads * kLength * kSize), plain(turned.size()), turned_out(turned.size()),
      plain_out(turned.size());
  const auto place = [&](std::int64_t h, std::int64_t i, std::int64_t x) { return (i * kHeads + h) * kSize + x; };
  std::size_t n = 0;
  for (std::int64_t h = 0; h < kHeads; ++h) {
    for (std::int64_t i = 0; i < kLength; ++i) {
      for (std::int64_t x = 0; x < kSize; ++x, ++n) {
        plain[n] = static_cast<float>(std::sin(n * 1.7));
        turned[static_cast<std::size_t>(place(h, i, x))] = plain[n];
      }
    }
  }
  const qkv_array own = array_of(plain, shape), own_out = array_of(plain_out, shape),
                  other = array_of(turned, shape, &strides), other_out = array_of(turned_out, shape, &strides);
  ASSERT_EQ(qkv_attention(&own, &own, &own, &own_out, nullptr), QKV_OK);
  ASSERT_EQ(qkv_attention(&other, &other, &other, &other_out, nullptr), QKV_OK);
  n = 0;
  for (std::int64_t h = 0; h < kHeads; ++h) {
    for (std::int64_t i = 0; i < kLength; ++i) {
      for (std::int64_t x = 0; x < kSize; ++x, ++n) {
        EXPECT_EQ(turned_out[static_cast<std::size_t>(place(h, i, x))], plain_out[n]);
      }
    }
  }
}

TEST_F(CAttention, RefusesArraysThatAreWrong) {
  const auto message_with = [&](const qkv_array* q, const qkv_attention_options& options = {}) -> std::string {
    EXPECT_EQ(qkv_attention(q, &k_, &v_, &out_, &options), QKV_INVALID);
    return qkv_message();
  };
  const auto changed = [&](auto change) {
    qkv_array array = q_;
    change(array);
    return array;
  };
  const Shape negative{-4, 2}, huge{std::int64_t{1} << 40, std::int64_t{1} << 40}, wide{4, 3};
  EXPECT_EQ(message_with(nullptr), "qkv_attention: q is NULL");
  const struct {
    qkv_array q;
    const char* message;
  } rows[] = {
      {changed([](qkv_array& a) { a.data = nullptr; }), "qkv_attention: q has shape [4, 2] and no data"},
      {changed([](qkv_array& a) { a.shape = nullptr; }), "qkv_attention: q has no shape"},
      {changed([](qkv_array& a) { a.rank = 0; }), "qkv_attention: q has rank 0; it must be from 1 to 16"},
      {changed([](qkv_array& a) { a.rank = 17; }), "qkv_attention: q has rank 17; it must be from 1 to 16"},
      {changed([](qkv_array& a) { a.type = 7; }), "qkv_attention: type of q is 7; it must be from 0 to 6"},
      {changed([&](qkv_array& a) { a.shape = negative.data(); }), "qkv_attention: q has shape [-4, 2]"},
      {changed([](qkv_array& a) { a.data = static_cast<char*>(a.data) + 1; }),
       "qkv_attention: q is f32 at an address that is no multiple of 4 bytes"},
  };
  for (const auto& row : rows) EXPECT_EQ(message_with(&row.q), row.message);
  for (const Shape* shape : {&huge, &wide}) {
    const qkv_array array = changed([&](qkv_array& a) { a.shape = shape->data(); });
    EXPECT_NE(message_with(&array), "");
  }
  qkv_attention_options options{};
  options.causal = 3;
  EXPECT_EQ(message_with(&q_, options), "qkv_attention: causal is 3; it must be from 0 to 2");
  options = {};
  options.visible = &q_;
  EXPECT_NE(message_with(&q_, options).find("f32"), std::string::npos) << qkv_message();
}

}  // namespace
}  // namespace qkv::test
