// The steps of attention: every number of the cases of golden/explain/steps.json, which plain Python computed; how
// inputs are generated, and what is refused.
#include "explain/example.h"
#include "explain/json_schema.h"
#include "qkv/error.h"
#include "qkv/explain/explain.h"
#include "stop_for_test.h"

namespace qkv {
namespace {

using test::expect_near;
using test::Json;
using test::matrix;
using test::Strings;

const Json& golden_steps() {
  static const Json cases = Json::parse(test::slurp(test::golden_file("steps.json")));
  return cases;
}

ExplainInput input_of(const Json& json) {
  ExplainInput input = worked_example();
  const char* const names[] = {"inputs",  "w_embed",       "w_query",     "w_key",   "w_value",
                               "b_query", "b_key",         "b_value",     "mask",    "w_out",
                               "b_out",   "score_w_query", "score_w_key", "score_w", "score_v"};
  Tensor* const tensors[] = {&input.inputs,  &input.w_embed,       &input.w_query,     &input.w_key,   &input.w_value,
                             &input.b_query, &input.b_key,         &input.b_value,     &input.mask,    &input.w_out,
                             &input.b_out,   &input.score_w_query, &input.score_w_key, &input.score_w, &input.score_v};
  for (std::size_t i = 0; i < std::size(names); ++i) {
    if (json.contains(names[i])) *tensors[i] = test::tensor_of(json[names[i]]);
  }
  const Json substitutes = json.value("substitutes", Json::object());
  for (const auto& [name, value] : substitutes.items()) {
    input.substitutes[name] = test::tensor_of(value);
  }
  const Strings scores = {"scaled-dot", "dot", "additive", "concat", "bilinear"};
  input.score = static_cast<Score::Kind>(std::ranges::find(scores, json["score"].get<std::string>()) - scores.begin());
  if (json.contains("scale")) input.scale = json["scale"];
  if (json.contains("causal")) input.causal = Align::top_left;
  if (json.contains("prefix")) input.prefix = json["prefix"];
  if (json.contains("window")) input.window = Mask::dilated(json["window"][0], json["window"][1], json["window"][2]);
  for (const Json& extent : json.value("picture", Json::array())) input.picture.push_back(extent);
  input.labels = json.value("labels", Strings());
  input.heads = json.value("heads", 0);
  input.tutorial = json.value("tutorial", false);
  return input;
}

TEST(ExplainGolden, StepsHaveTheNumbersOfPlainPython) {
  for (const Json& one : golden_steps()) {
    SCOPED_TRACE(one["name"]);
    const Json& expected = one["tensors"];
    const Explanation explanation = explain(input_of(one["input"]));
    for (const Quantity& own : test::quantities(explanation)) {
      ASSERT_TRUE(expected.contains(own.name)) << own.name;
      const Tensor wanted = test::tensor_of(expected[own.name]);
      expect_near(own.values.view().reshape(wanted.shape()), wanted, 1e-12, own.name);
      const std::string whole = own.name.substr(0, own.name.find(" of "));  // of which it may be the first row
      EXPECT_EQ(own.substituted, one["input"].value("substitutes", Json::object()).contains(whole)) << own.name;
    }
    expect_near(explanation.output, test::tensor_of(expected["output"]), 1e-12);
    expect_near(explanation.true_output, test::tensor_of(expected.value("true output", expected["output"])), 1e-12);
    EXPECT_NEAR(explanation.scale, one["scale"], 1e-15);
    EXPECT_EQ(explanation.score, one["input"]["score"].get<std::string>());
    // Sums of a few numbers below 20; the kernel's own exp and tanh are good to 1e-14.
    const bool is_broken = one["name"] == "nobody" || one["name"] == "own_value";
    EXPECT_EQ(std::isnan(explanation.largest_difference), is_broken);
    EXPECT_FALSE(explanation.largest_difference > 1e-12);
    ASSERT_EQ(explanation.mask.has_value(), !one["hidden"].is_null());
    if (explanation.mask) expect_near(explanation.mask->hidden, test::tensor_of(one["hidden"]), 0);
  }
}

// Some whole, of the others what their rules and scores change. make.py checks the numbers.
TEST(ExplainGolden, TextsOfTheSteps) {
  for (const Json& one : golden_steps()) {
    const std::string name = one["name"];
    Explanation explanation = explain(name == "worked" ? worked_example() : input_of(one["input"]));
    const Strings whole = {"worked", "tutorial", "nobody", "signs", "own_weights", "embedded", "heads"};
    if (std::ranges::find(whole, name) == whole.end()) {
      std::erase_if(explanation.sections, [](const Section& section) {
        return (section.number > 0 && section.number < 4) || section.number > 5 || section.title == "Check";
      });
    }
    test::expect_golden(name + ".txt", to_text(explanation));
  }
}

// JSON of all cases by the schema, and some whole, a section a line. make.py checks the numbers, too.
TEST(ExplainGolden, JsonOfTheSteps) {
  std::string rules;
  for (const Json& one : golden_steps()) {
    const std::string name = one["name"];
    const Explanation explanation = explain(input_of(one["input"]));
    Json json = Json::parse(to_json(explanation));
    test::expect_valid(json, "steps");
    if (explanation.mask) rules += name + ": " + json["mask"].dump() + "\n";
    const double difference = explanation.largest_difference;
    EXPECT_EQ(json["largest_difference_from_reference"], std::isnan(difference) ? Json("nan") : Json(difference));
    if (name != "tutorial" && name != "nobody" && name != "heads") continue;
    for (const char* member : {"version", "target", "cost", "largest_difference_from_reference"}) {
      EXPECT_EQ(json.erase(member), 1u);
    }
    std::string lines;
    for (const Json& section : json["sections"]) lines += section.dump() + "\n";
    json.erase("sections");
    for (const auto& [member, value] : json.items()) lines += member + ": " + value.dump() + "\n";
    const std::string nine = std::regex_replace(lines, std::regex("(\\.[0-9]{9})[0-9]+"), "$1");
    test::expect_golden("steps_" + name + ".json.txt",
                        std::regex_replace(nine, std::regex("(\\.[0-9]+?)0+(?![0-9])"), "$1"));
  }
  test::expect_golden("rules.txt", rules);
}

using Change = std::function<void(ExplainInput&)>;

Tensor ones(std::int64_t rows, std::int64_t columns) {
  return test::filled(rows, columns, [](auto, auto) { return 1; });
}

TEST(Explain, RefusesWhatDoesNotFit) {
  const std::pair<Change, std::string> rows[] = {
      {[](auto& in) { in.substitutes["wieghts"] = ones(2, 5); },
       "no \"wieghts\" to substitute; there are inputs, query, key, value, scores, logits, weights"},
      {[](auto& in) { in.substitutes["weights"] = ones(2, 5); }, "must be [3, 3] in f64, got [2, 5]"},
      {[](auto& in) { in.w_query = ones(2, 5); }, "w_query must have 4 rows"},
      {[](auto& in) { in.w_key = ones(4, 2); }, "w_query has 3 columns, w_key 2"},
      {[](auto& in) { in.w_embed = ones(2, 5); }, "w_embed must have 4 columns"},
      {[](auto& in) { in.b_key = ones(2, 5); }, "b_key must be 3 numbers"},
      {[](auto& in) { in.mask = ones(2, 5); }, "mask must be [3, 3]"},
      {[](auto& in) { in.mask = matrix(1, 3, {1, .5, 1}); }, "1 (may attend) and 0 (hidden)"},
      {[](auto& in) { in.inputs = Tensor::zeros({2, 3, 4}, Dtype::f64); }, "inputs must be a matrix"},
      {[](auto& in) { in.score = Score::Kind::bilinear; }, "score_w must be a matrix of 3 columns"},
      {[](auto& in) { in.labels = {"a"}; }, "1 labels for 3 inputs"},
      {[](auto& in) { in.picture = {3, 3}; }, "4 pixels"},
      {[](auto& in) { in.scale = std::nan(""); }, "scale must be finite"},
      {[](auto& in) { in.prefix = -1; }, "prefix"},
  };
  for (const auto& [change, part] : rows) {
    ExplainInput input = worked_example();
    change(input);
    const std::string message = test::refusal([&] { explain(input); });
    EXPECT_TRUE(test::holds(message, part)) << message;
  }
  const auto is_heads = [](const Json& one) { return one["name"] == "heads"; };
  const Json& heads = *std::ranges::find_if(golden_steps(), is_heads);
  const Change of_heads[] = {
      [](auto& in) { in.heads = 3; },
      [](auto& in) { in.heads = -1; },
      [](auto& in) { in.w_key = ones(4, 2); },
      [](auto& in) { in.w_out = ones(5, 3); },
      [](auto& in) { in.b_out = ones(1, 4); },
      [](auto& in) { in.scale = 1; },
      [](auto& in) { in.score = Score::Kind::dot; },
      [](auto& in) { in.substitutes["weights"] = ones(3, 3); },
      [](auto& in) { in.w_out = Tensor(); },
  };
  for (const Change& change : of_heads) {
    ExplainInput input = input_of(heads["input"]);
    change(input);
    EXPECT_THROW(explain(input), std::invalid_argument) << "row " << &change - of_heads;
  }
}

ExplainInput synthetic(const SyntheticInput& choice, Score::Kind score = Score::Kind::scaled_dot) {
  ExplainInput input;
  input.score = score;
  generate_missing(input, choice);
  return input;
}

TEST(SyntheticInput, GivesTheShapesAskedFor) {
  const ExplainInput input = synthetic({.inputs = 7, .dim = 5, .key_dim = 3, .value_dim = 2}, Score::Kind::additive);
  std::string shapes;
  for (const Tensor* one : {&input.inputs, &input.w_query, &input.w_key, &input.w_value, &input.score_w_query,
                            &input.score_w_key, &input.score_v}) {
    shapes += to_string(one->shape());
  }
  EXPECT_EQ(shapes, "[7, 5][5, 3][5, 3][5, 2][3, 3][3, 3][3]");
  EXPECT_EQ(explain(input).output.shape(), (Dims{7, 2}));
  EXPECT_EQ(input.weights_origin,
            "Generated at random (xavier, seed 1): w_query, w_key, w_value, score_w_query, score_w_key, score_v. "
            "Nothing has been learned, so who attends to whom is chance.");
  for (const Score::Kind kind : {Score::Kind::concat, Score::Kind::bilinear}) {
    EXPECT_LT(explain(synthetic({.key_dim = 3}, kind)).largest_difference, 1e-12);
  }
}

// The stop token is asked once a row of all that is generated.
TEST(SyntheticInput, AsksForAStop) {
  ExplainInput input, stopped;
  const auto generate = [&] { generate_missing(input, {.inputs = 30, .dim = 20, .key_dim = 7}); };
  EXPECT_GE(test::questions_of(generate), 30 + 3 * 20);
  std::stop_source source;
  source.request_stop();
  stopped.stop = source.get_token();
  EXPECT_THROW(generate_missing(stopped, {}), Stopped);
}

// And each matrix has a stream of its own: what is given leaves the others as they were.
TEST(SyntheticInput, TheSeedDecidesAll) {
  const auto numbers = [](const Tensor& tensor) { return test::values_of(tensor); };
  const ExplainInput one = synthetic({.seed = 1}), again = synthetic({.seed = 1}), two = synthetic({.seed = 2});
  EXPECT_EQ(numbers(one.inputs), numbers(again.inputs));
  EXPECT_EQ(numbers(one.w_query), numbers(again.w_query));
  EXPECT_NE(numbers(one.inputs), numbers(two.inputs));
  EXPECT_NE(numbers(one.w_query), numbers(two.w_query));
  EXPECT_NE(numbers(one.w_query), numbers(one.w_key));
  ExplainInput partly;
  partly.w_key = ones(4, 4);
  generate_missing(partly, {});
  EXPECT_EQ(numbers(partly.w_key), numbers(ones(4, 4)));
  EXPECT_EQ(numbers(partly.inputs), numbers(one.inputs));
  EXPECT_EQ(numbers(partly.w_query), numbers(one.w_query));
  EXPECT_EQ(numbers(partly.w_value), numbers(one.w_value));
}

// Of 30,000 numbers the deviation is known to 0.4 percent (one sigma).
TEST(SyntheticInput, DeviationFollowsTheRule) {
  const std::pair<Init, double> rows[] = {
      {Init::normal, 1}, {Init::xavier, std::sqrt(2. / 400)}, {Init::kaiming, std::sqrt(2. / 300)}};
  for (const auto& [init, deviation] : rows) {
    double sum = 0;
    for (const double x : test::values_of(synthetic({.dim = 300, .key_dim = 100, .init = init}).w_query)) sum += x * x;
    EXPECT_NEAR(std::sqrt(sum / 30000), deviation, .02 * deviation);
  }
}

TEST(SyntheticInput, RefusesMatricesThatAreNone) {
  for (const Dims& shape : {Dims{4}, Dims{0, 4}}) {
    ExplainInput input;
    input.inputs = Tensor::zeros(shape, Dtype::f64);
    EXPECT_THROW(generate_missing(input, {}), std::invalid_argument);
  }
}

}  // namespace
}  // namespace qkv
