// The norm of gradients against a plain sum, for any number of threads.
#include <gtest/gtest.h>

#include "qkv/threads.h"
#include "train/elements.h"
#include "train/tiny_model.h"

namespace qkv {
namespace {

class Gradients : public Trainable {
 public:
  explicit Gradients(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {}
  void visit(const ParameterVisitor& visitor) const override {
    for (const Parameter& own : parameters_) visitor("", own);
  }
  void update(const ParameterUpdater&) override {}

 private:
  std::vector<Parameter> parameters_;
};

Parameter with_gradient(Tensor gradient) {
  return {.value = Tensor::zeros(gradient.shape(), gradient.dtype()), .gradient = std::move(gradient)};
}

TEST(GradientNorm, IsThatOfAllTogether) {
  std::vector<Parameter> parameters;
  parameters.push_back(with_gradient(Tensor::of<float>({2}, {3, 0})));
  parameters.push_back({.value = Tensor::of<float>({1}, {7})});
  parameters.push_back(with_gradient(Tensor::of<double>({1, 1}, {-4})));
  EXPECT_EQ(training::gradient_norm(Gradients(std::move(parameters))), 5);
  EXPECT_EQ(training::gradient_norm(Gradients({})), 0);
}

// In f32, 2^24 + 1 is 2^24: the ones after the first would be lost.
TEST(GradientNorm, IsSummedInDouble) {
  std::vector<float> gradient(10'001, 1);
  gradient[0] = 4096;
  std::vector<Parameter> parameters;
  parameters.push_back(with_gradient(Tensor::of<float>({10'001}, gradient)));
  EXPECT_DOUBLE_EQ(training::gradient_norm(Gradients(std::move(parameters))), std::sqrt(16'777'216.0 + 10'000));
}

TEST(GradientNorm, HasTheSameBitsForAnyNumberOfThreads) {
  Random random(1);
  Tensor gradient = Tensor::uninitialized({100'003});
  for (std::int64_t i = 0; i < gradient.element_count(); ++i) {
    gradient.data<float>()[i] = static_cast<float>(random.normal());
  }
  std::vector<Parameter> parameters;
  parameters.push_back(with_gradient(std::move(gradient)));
  const Gradients model(std::move(parameters));
  set_threads(1);
  const double alone = training::gradient_norm(model);
  EXPECT_NEAR(alone, std::sqrt(100'003.0), 1);
  for (const int threads : {2, 3, 7}) {
    set_threads(threads);
    EXPECT_EQ(training::gradient_norm(model), alone);
  }
  set_threads(0);
}

}  // namespace
}  // namespace qkv
