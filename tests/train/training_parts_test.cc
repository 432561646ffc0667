// What the loop is made of: pairs as examples and their batches; Adam against its formulas in double precision, its
// rate by hand, the norm of gradients against a plain sum; the log, line by line, and the picture of its losses.
#include "io/files_for_test.h"
#include "qkv/random.h"
#include "qkv/threads.h"
#include "qkv/train/adam.h"
#include "qkv/train/examples.h"
#include "qkv/train/schedule.h"
#include "train/data/batches.h"
#include "train/elements.h"
#include "train/training_log.h"
#include "train/watcher.h"

namespace qkv {
namespace {

using training::Batches;
using training::CurvePoint;
using training::make_batches;
using training::TrainingLog;

TEST(PairExamples, AreCollectedSideBySide) {
  const std::vector<TokenPair> pairs{{{1, 2}, {3}}, {{4}, {5, 6, 7}}};
  const PairExamples examples(pairs);
  EXPECT_EQ(examples.count(), 2);
  EXPECT_EQ(examples.size(1).cost, 4);  // the tokens of both sides
  EXPECT_EQ(examples.size(1).length, 3);
  const std::vector<std::uint32_t> chosen{1, 0};
  const PairBatch batch = examples.collect(chosen);
  EXPECT_EQ(batch.source, (std::vector<std::int32_t>{4, 1, 2}));
  EXPECT_EQ(batch.target, (std::vector<std::int32_t>{5, 6, 7, 3}));
  test::expect_equal(batch.source_offsets, Tensor::of<std::int32_t>({3}, {0, 1, 3}));
  test::expect_equal(batch.target_offsets, Tensor::of<std::int32_t>({3}, {0, 3, 4}));
}

TEST(PairExamples, AreKnownByTokensAndEnds) {
  const auto checksum = [](const std::vector<TokenPair>& pairs) { return PairExamples(pairs).checksum(); };
  EXPECT_EQ(checksum({{{1, 2}, {3}}}), checksum({{{1, 2}, {3}}}));
  EXPECT_NE(checksum({{{1, 2}, {3}}}), checksum({{{1}, {2, 3}}}));
  EXPECT_NE(checksum({{{1, 2}, {3}}}), checksum({{{1, 2}, {4}}}));
  EXPECT_EQ(test::message_of<std::invalid_argument>([&] { checksum({{{1}, {1}}, {{1}, {}}}); }),
            "train: pair 1 (from 0) has an empty side");
}

std::vector<TokenPair> pairs_of_lengths(std::size_t count) {
  Random random(1);
  std::vector<TokenPair> pairs;
  for (std::size_t i = 0; i < count; ++i) {
    pairs.push_back({std::vector<std::int32_t>(1 + random.below(40)), std::vector<std::int32_t>(1 + random.below(40))});
  }
  return pairs;
}

TEST(Batches, HoldEachPairOnceWithinTheirTokens) {
  const auto pairs = pairs_of_lengths(2000);
  std::vector<std::uint32_t> all, wanted;
  std::size_t full = 0, alike = 0;
  const Batches batches = make_batches(PairExamples(pairs), 500, 1, 0);
  for (const auto& batch : batches) {
    ASSERT_FALSE(batch.empty());
    std::size_t tokens = 0, least = 40, most = 0;
    for (const std::uint32_t i : batch) {
      tokens += pairs[i].source.size() + pairs[i].target.size();
      least = std::min(least, pairs[i].target.size());
      most = std::max(most, pairs[i].target.size());
    }
    EXPECT_LE(tokens, 500u);
    full += tokens > 400;
    alike += most - least < 4;  // targets of like length are together
    all.insert(all.end(), batch.begin(), batch.end());
  }
  EXPECT_GE(full, batches.size() - 2);
  EXPECT_GE(alike, batches.size() * 8 / 10);  // the others hold what was left in the buckets
  std::sort(all.begin(), all.end());
  for (std::uint32_t i = 0; i < pairs.size(); ++i) wanted.push_back(i);
  EXPECT_EQ(all, wanted);
}

TEST(Batches, AreDrawnFromSeedAndEpoch) {
  const auto pairs = pairs_of_lengths(300);
  const auto batches = [&](std::uint64_t seed, std::uint64_t epoch) {
    return make_batches(PairExamples(pairs), 200, seed, epoch);
  };
  EXPECT_EQ(batches(1, 4), batches(1, 4));
  EXPECT_NE(batches(1, 4), batches(1, 5));
  EXPECT_NE(batches(1, 4), batches(2, 4));
}

TEST(Batches, APairThatIsTooLongIsABatch) {
  const std::vector<TokenPair> pairs{{{1}, {1}}, {{1, 2, 3, 4}, {1, 2, 3, 4}}, {{2}, {2}}};
  for (const auto& batch : make_batches(PairExamples(pairs), 4, 1, 0)) {
    const bool has_long = std::find(batch.begin(), batch.end(), 1u) != batch.end();
    EXPECT_EQ(batch.size(), has_long ? 1u : 2u);
  }
  EXPECT_TRUE(make_batches(PairExamples({}), 4, 1, 0).empty());
}

std::vector<double> normal_numbers(std::int64_t count, Random& random) {
  std::vector<double> numbers(static_cast<std::size_t>(count));
  for (double& number : numbers) number = random.normal();
  return numbers;
}

// One element as the paper has it.
struct Reference {
  AdamConfig config;
  double w, m = 0, v = 0;
  int steps = 0;

  void step(double rate, double g) {
    ++steps;
    if (config.decay == WeightDecay::decoupled) w -= rate * config.weight_decay * w;
    if (config.decay == WeightDecay::in_gradient) g += config.weight_decay * w;
    m = config.beta1 * m + (1 - config.beta1) * g;
    v = config.beta2 * v + (1 - config.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(config.beta1, steps)), v_hat = v / (1 - std::pow(config.beta2, steps));
    w -= rate * m_hat / (std::sqrt(v_hat) + config.epsilon);
  }
};

TEST(Adam, FollowsItsFormulas) {
  constexpr std::int64_t kCount = 40000;  // several blocks
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const WeightDecay decay : {WeightDecay::in_gradient, WeightDecay::decoupled}) {
      const AdamConfig config{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1, .decay = decay};
      Random random(1);
      Parameter own{.value = convert(Tensor::of({kCount}, normal_numbers(kCount, random)), dtype)};
      own.want_gradient();
      std::vector<Reference> expected;
      for (const double w : test::values_of(own.value)) expected.push_back({config, w});
      Adam adam(config);
      for (int step = 0; step < 4; ++step) {
        const std::vector<double> gradient = normal_numbers(kCount, random);
        convert(Tensor::of({kCount}, gradient), own.gradient);
        const double rate = 0.1 / (step + 1);
        adam.begin_step(rate, 0.5);
        adam.step("w", own);
        for (std::size_t i = 0; i < gradient.size(); ++i) expected[i].step(rate, 0.5 * gradient[i]);
      }
      const double tolerance = dtype == Dtype::f32 ? 2e-6 : 1e-14;  // some ten roundings of numbers about 1
      const std::vector<double> actual = test::values_of(own.value);
      for (std::size_t i = 0; i < actual.size(); i += 997) EXPECT_NEAR(actual[i], expected[i].w, tolerance) << i;
      test::expect_equal(own.gradient, Tensor::zeros({kCount}, dtype));
      EXPECT_EQ(adam.steps(), 4);
    }
  }
}

TEST(Adam, LeavesAloneWhatHasNoGradient) {
  Parameter own{.value = Tensor::of<float>({2}, {1, 2})};
  Adam adam({});
  adam.begin_step(0.1);
  adam.step("w", own);
  EXPECT_EQ(own.value.data<float>()[0], 1);
  EXPECT_TRUE(adam.moments().empty());
}

TEST(Adam, RefusesWhatCannotBeMeant) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const AdamConfig& config : {AdamConfig{.beta1 = 1}, AdamConfig{.beta2 = -0.1}, AdamConfig{.beta1 = nan},
                                   AdamConfig{.epsilon = 0}, AdamConfig{.epsilon = 1e-300}, AdamConfig{.epsilon = nan},
                                   AdamConfig{.weight_decay = -1}, AdamConfig{.weight_decay = nan}}) {
    EXPECT_THROW(Adam{config}, std::invalid_argument);
  }
}

TEST(Schedule, RisesAndFalls) {
  const ScheduleConfig root{.rate = 0.8, .warmup = 4}, cosine{.rate = 0.8, .warmup = 4, .decay = Decay::cosine};
  struct Row {
    ScheduleConfig config;
    std::int64_t step, steps;
    double rate;
  };
  for (const auto& [config, step, steps, rate] : {Row{root, 1, 100, 0.2},
                                                  {root, 3, 100, 0.6},
                                                  {root, 4, 100, 0.8},
                                                  {root, 16, 100, 0.4},
                                                  {root, 100, 100, 0.16},
                                                  {cosine, 1, 100, 0.2},
                                                  {cosine, 3, 100, 0.6},
                                                  {cosine, 4, 100, 0.8},
                                                  {cosine, 8, 16, 0.6},   // a third of the way: cos(60 degrees) = 1/2
                                                  {cosine, 10, 16, 0.4},  // half of it
                                                  {{.rate = 0.8, .warmup = 0}, 1, 100, 0.8},
                                                  {{.rate = 0.8, .warmup = 0}, 4, 100, 0.4}}) {
    EXPECT_DOUBLE_EQ(learning_rate(config, step, steps), rate) << step << " of " << steps;
  }
  EXPECT_NEAR(learning_rate(cosine, 16, 16), 0, 1e-16);
}

// Of a model with such gradients; none: not wanted.
double norm_of(const Tensor& one, const Tensor& other = {}) {
  test::TinyModel model;
  model.update([&](const std::string& name, Parameter& own) { own.gradient = name == "table" ? one : other; });
  return training::gradient_norm(model);
}

TEST(GradientNorm, IsThatOfAllTogether) {
  EXPECT_EQ(norm_of(Tensor::of<float>({2}, {3, 0}), Tensor::of<double>({1, 1}, {-4})), 5);
  EXPECT_EQ(norm_of({}), 0);
  // Summed in double: in f32, 2^24 + 1 is 2^24, and the ones after the first would be lost.
  std::vector<float> gradient(10'001, 1);
  gradient[0] = 4096;
  EXPECT_DOUBLE_EQ(norm_of(Tensor::of({10'001}, gradient)), std::sqrt(16'777'216.0 + 10'000));
}

TEST(GradientNorm, HasTheSameBitsForAnyNumberOfThreads) {
  Random random(1);
  const Tensor gradient = convert(Tensor::of({100'003}, normal_numbers(100'003, random)), Dtype::f32);
  set_threads(1);
  const double alone = norm_of(gradient);
  EXPECT_NEAR(alone, std::sqrt(100'003.0), 1);
  for (const int threads : {2, 3, 7}) {
    set_threads(threads);
    EXPECT_EQ(norm_of(gradient), alone);
  }
  set_threads(0);
}

TEST(TrainingLog, WritesOneObjectALine) {
  const test::TemporaryFolder folder;
  TrainingLog log(folder / "log", 0);
  log.add(TrainingProgress{.step = 5,
                           .epoch = 1,
                           .loss = 2.5,
                           .nll = 2.25,
                           .rate = 0.125,
                           .gradient_norm = 3,
                           .tokens_per_second = 64,
                           .peak_memory = 4096});
  log.add(Validation{.step = 5, .loss = 0.5, .perplexity = 2, .best = true});
  // exp(loss) leaves the doubles from a loss of 710 on.
  const Validation last{
      .step = 6, .loss = 1000, .perplexity = std::numeric_limits<double>::infinity(), .metric = {{"accuracy", 0.25}}};
  log.add(last);
  const std::string lines =
      R"({"step":5,"epoch":1,"loss":2.5,"nll":2.25,"rate":0.125,"gradient_norm":3.0,"tokens_per_second":64.0,)"
      R"("peak_memory":4096}
{"step":5,"valid_loss":0.5,"perplexity":2.0,"best":true}
{"step":6,"valid_loss":1000.0,"perplexity":"inf","accuracy":0.25,"best":false}
)";
  EXPECT_EQ(test::slurp(folder / "log"), lines);
  TrainingLog(folder / "log", 6).add(last);  // which it has
  EXPECT_EQ(test::slurp(folder / "log"), lines);
}

TEST(TrainingLog, GoesOnAfterTheStepOfACheckpoint) {
  const test::TemporaryFolder folder;
  const std::string kept = "{\"step\":1,\"loss\":3.5,\"nll\":3.0}\n{\"step\":2,\"valid_loss\":4.0}\n";
  const std::string path = folder.put("log", kept + "{\"step\":3,\"nll\":1.0}\n{\"step\":4,\"lo");
  const TrainingLog log(path, 2);
  EXPECT_EQ(test::slurp(path), kept);
  ASSERT_EQ(log.training().size(), 1u);
  EXPECT_EQ(log.training()[0].loss, 3);
  ASSERT_EQ(log.validation().size(), 1u);
  EXPECT_EQ(log.validation()[0].step, 2);
  EXPECT_TRUE(TrainingLog(path, 0).training().empty());  // a training from its beginning
  EXPECT_EQ(test::slurp(path), "");
}

TEST(TrainingLog, SaysWhatChanged) {
  const test::TemporaryFolder folder;
  const std::string path = folder.put("log", "{\"step\":2,\"nll\":3.0}\n");
  const std::string change = "{\"step\":2,\"changed\":{\"rate\":{\"before\":\"0.1\",\"now\":\"0.2\"}}}\n";
  const std::string before = test::slurp(path);
  TrainingLog(path, 2).add(2, {{"rate", "0.1", "0.2"}});
  EXPECT_EQ(test::slurp(path), before + change);
  TrainingLog(path, 2);  // begun again before a checkpoint: the change is yet to come
  EXPECT_EQ(test::slurp(path), before);
  TrainingLog(path, 2).add(2, {{"rate", "0.1", "0.2"}});
  TrainingLog(path, 3);
  EXPECT_EQ(test::slurp(path), before + change);
}

TEST(TrainingLog, RefusesWhatIsNoLog) {
  const test::TemporaryFolder folder;
  test::expect_refused({{"nonsense\n", "not valid JSON"}, {"{\"loss\": 1}\n", "step is missing"}}, "log",
                       [](const std::string& path) { TrainingLog(path, 1); });
}

// x from 52 to 704, y from 28 (the highest loss) to 324 (none). The best is the first of the lowest validations.
TEST(LossCurve, PlacesPointsByStepAndLoss) {
  const std::vector<CurvePoint> training{{0, 40}, {50, 20}, {100, 0}},
      validation{{25, 20}, {50, 10}, {75, 30}, {100, 10}};
  const std::string svg = training::loss_curve_svg(training, validation);
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  test::expect_contains(svg, "points=\"52.0,28.0 378.0,176.0 704.0,324.0\"");
  test::expect_contains(svg, "points=\"215.0,176.0 378.0,250.0 541.0,102.0 704.0,250.0\"");
  test::expect_contains(svg, "<circle cx=\"378.0\" cy=\"250.0\"");
  test::expect_contains(svg, ">best: 10.0000 at step 50<");
  // Ticks of losses 10 apart, the least of 1, 2, 5, 10 ... that is not below a fifth, and of steps 20.
  for (int i = 0; i <= 4; ++i) {
    test::expect_contains(svg, fmt::format("<text x=\"46.0\" y=\"{}.0\"", 328 - 74 * i));
    test::expect_contains(svg, fmt::format(">{}<", 10 * i));
  }
  for (const char* x : {"52.0", "182.4", "312.8", "443.2", "573.6", "704.0"}) {
    test::expect_contains(svg, fmt::format("<text x=\"{}\" y=\"342.0\"", x));
  }
  EXPECT_EQ(svg.find(">50<"), std::string::npos);
}

TEST(LossCurve, OfNothingIsEmptyAxes) {
  const std::string svg = training::loss_curve_svg({}, {});
  EXPECT_EQ(svg.find("stroke-width=\"1.5\""), std::string::npos);
  EXPECT_EQ(svg.find("circle"), std::string::npos);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

}  // namespace
}  // namespace qkv
