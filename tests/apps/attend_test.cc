// qkv attend: numbers that are known, for every option. What it refuses: answers.txt.
#include "apps/attend.h"

namespace qkv::test {
namespace {

// Computed in double precision by hand from the example's tables.
const std::string kUnscaled =
    "o [[1.93662106,6.68310531,1.59506841],[1.99999397,7.9639916,.0539764053],[1.99970461,7.75989225,.358389295]] "
    "w [[.0633789383,.468310531,.468310531],[6.03366485e-06,.982007865,.0179861014],"
    "[2.95387223e-04,.880536902,.119167711]] z [[2,4,4],[4,16,12],[4,12,10]] l [4.75862368,16.018156,12.1272234]";
const std::string kScaled =
    " [[1.8638742,6.31937101,1.7041887],[1.99910955,7.8141235,.273472058],[1.99255511,7.47963559,.735877258]] ";
const std::string kLookAhead = "o [[1,2,3],[1.9990212,7.9941272,.0029364021],[1.99255511,7.47963559,.735877258]]";

TEST_F(Attend, WorkedExample) {
  save(worked_example());
  for (const std::string unscaled : {"--scale 1", "--score dot", "--score=scaled-dot --scale=1.0"}) {
    expect(unscaled + " --weights w.npy --logits z.npy --log-sum-exp l.npy", kUnscaled);
  }
  expect("--log-sum-exp l.npy", "o" + kScaled + "l [3.14887638,9.33318761,7.20962815]");
  for (const std::string align : {"top-left", "bottom-right"}) expect("--causal " + align, kLookAhead);
  // bf16 holds the example's inputs; each weight is rounded by up to 2^-8, to values of up to 8.
  expect("--precision reduced", "o" + kScaled, 0.033);
  // The gold numbers have nine digits.
  expect("--dtype f64 --scale 1", "o:f64" + kUnscaled.substr(1, kUnscaled.find(" w ")), 1e-8);
  save(worked_example(":f64"));
  expect("--log-sum-exp l.npy", "o:f64" + kScaled + "l:f64 [3.14887638,9.33318761,7.20962815]", 1e-8);
  save(worked_example(":i32"));
  expect("--dtype f32", "o" + kScaled);
}

// Entropies: -sum of p log p over each row of weights. Received: columns of the table of weights. Their mean, the one
// block: nine weights that sum to 3.
TEST_F(Attend, StatisticsOfTheWorkedExample) {
  save(worked_example() + "rows:i64 [[0,0,2],[0,0,0]]");
  expect(
      "--score dot --row-maximum m.npy --entropy e.npy --top-keys t.npy --top-weights tw.npy --top 4 --received r.npy "
      "--block-weights b.npy --blocks 1 --rows rows.npy --row-weights w.npy",
      "m [4,16,12] e [.885381541,.0901727721,.367921935] t:i64 [[1,2,0,-1],[1,2,0,-1],[1,2,0,-1]] "
      "tw [[.468310531,.468310531,.0633789383,0],[.982007865,.0179861014,6.03366485e-06,0],"
      "[.880536902,.119167711,2.95387223e-04,0]] r [.0636803591,2.330855298,.605464343] b [[1/3]] "
      "w [[2.95387223e-04,.880536902,.119167711],[.0633789383,.468310531,.468310531]]");
}

// One key: the output is its value as stored. 1 + 2^-8 and 1 + 2^-11 lie half way between neighbours of short types.
TEST_F(Attend, DtypeIsTheStorageInside) {
  save("q [[1,1]] k [[1,1]] v [[1.00390625,1.00048828125]]");
  expect("--dtype bf16", "o [[1,1]]", 0);
  expect("--dtype f16", "o [[1.00390625,1]]", 0);
  expect("", "o [[1.00390625,1.00048828125]]", 0);
}

TEST_F(Attend, ReadsSafetensorsCsvAndJsonFromFilesOfAnyName) {
  save(worked_example());
  expect("", "o" + kScaled);
  const Tensor query = read_npy(folder_ / "q.npy"), key = read_npy(folder_ / "k.npy");
  write_safetensors(folder_ / "all.safetensors", {.tensors = {{"q", query}, {"k", key}}, .metadata = {}});
  for (const char* name : {"v.csv", "V.CSV"}) folder_.put(name, "1,2,3\n2,8,0\n2,6,3\n");
  folder_.put("v.json", "[[1, 2, 3], [2, 8, 0], [2, 6, 3]]");
  folder_.put("v\xc3\xa4 lue.npy", slurp(folder_ / "v.npy"));
  for (const std::string value : {"v.csv", "V.CSV", "v.json", "v\xc3\xa4 lue.npy"}) {
    const std::string out = "aus gabe\xc3\xa4\xe2\x82\xac.NPY";
    folder_.text("attend --query all.safetensors:q --key all.safetensors:k --dtype f32 --value '" + value +
                 "' --out '" + out + "'");
    EXPECT_TRUE(slurp(folder_ / out) == slurp(folder_ / "o.npy")) << value;
    std::filesystem::remove(folder_ / out);
  }
}

// Every format holds the very numbers of the .npy, and standard output those of .json.
TEST_F(Attend, OutputsInEveryFormat) {
  save_arrays(folder_, worked_example());
  const std::string line = "attend --query q.npy --key k.npy --value v.npy ";
  folder_.text(line + "--out o.npy --weights w.npy --log-sum-exp l.npy");
  folder_.text(line + "--out o.CSV --weights w.json --log-sum-exp l.safetensors:sums");
  folder_.text(line + "--out o.safetensors");
  const auto numbers = [&](const std::string& path) {
    const Tensor array = convert(read_array(folder_ / path), Dtype::f32);
    return std::vector<float>(array.data<float>(), array.data<float>() + array.element_count());
  };
  EXPECT_EQ(numbers("o.CSV"), numbers("o.npy"));
  EXPECT_EQ(numbers("o.safetensors:array"), numbers("o.npy"));
  EXPECT_EQ(numbers("l.safetensors:sums"), numbers("l.npy"));
  const Json weights = Json::parse(slurp(folder_ / "w.json"));
  std::vector<float> flat;
  for (const Json& row : weights.flatten()) flat.push_back(row.get<float>());
  EXPECT_EQ(flat, numbers("w.npy"));
  EXPECT_EQ(folder_.text(line + "--out p.npy --weights -"), slurp(folder_ / "w.json"));
}

TEST_F(Attend, ShapesOfBatchesAndGroupedHeads) {
  save("q 0{2,4,3,2} k 1{2,2,1,2} v 7{2,2,1,5}");
  expect("--weights w.npy --logits z.npy --log-sum-exp l.npy --threads 2",
         "o 7{2,4,3,5} w 1{2,4,3,1} z 0{2,4,3,1} l 0{2,4,3}");
  save("q 0{2,3} k 0{0,3} v 0{0,2}");
  expect("--weights w.npy --log-sum-exp l.npy", "o [[0,0],[0,0]] w 0{2,0} l [-inf,-inf]");
}

// Three queries of zeros over four keys: every visible key gets the same weight. Bottom-right, query i is at i + 1.
TEST_F(Attend, MasksOfPositions) {
  save("q 0{3,2} k 0{4,2} v 0{4,2} two:i32 [2] a:u8 [[1,1,1,0],[1,1,0,1],[1,0,1,1]] b:u8 [[1,0,1,1]]");
  const std::pair<const char*, const char*> cases[] = {
      {"", "[[1,1,1,1],[1,1,1,1],[1,1,1,1]]"},
      {"--causal top-left", "[[1,0,0,0],[1,1,0,0],[1,1,1,0]]"},
      {"--causal bottom-right", "[[1,1,0,0],[1,1,1,0],[1,1,1,1]]"},
      {"--window 1,0", "[[1,0,0,0],[1,1,0,0],[0,1,1,0]]"},
      {"--window -1,1", "[[1,1,0,0],[1,1,1,0],[1,1,1,1]]"},
      {"--window 0,-1", "[[1,1,1,1],[0,1,1,1],[0,0,1,1]]"},
      {"--window 1,5 --causal bottom-right", "[[1,1,0,0],[0,1,1,0],[0,0,1,1]]"},
      {"--window 1,0 --align bottom-right", "[[1,1,0,0],[0,1,1,0],[0,0,1,1]]"},
      {"--window 1,0 --align top-left", "[[1,0,0,0],[1,1,0,0],[0,1,1,0]]"},
      {"--prefix two.npy", "[[1,1,0,0],[1,1,0,0],[1,1,1,0]]"},
      {"--prefix two.npy --align bottom-right", "[[1,1,0,0],[1,1,1,0],[1,1,1,1]]"},
      {"--dilated 1,0,2", "[[1,0,0,0],[0,1,0,0],[1,0,1,0]]"},
      {"--dilated -1,-1,3 --align bottom-right", "[[0,1,0,0],[0,0,1,0],[1,0,0,1]]"},
      {"--dilated -1,-1,2 --window 1,1", "[[1,0,0,0],[0,1,0,0],[0,0,1,0]]"},
      {"--mask a.npy --mask b.npy", "[[1,0,1,0],[1,0,0,1],[1,0,1,1]]"}};
  for (const auto& [options, visible] : cases) expect_weights(options, visible);
}

TEST_F(Attend, MaskAndLengthsAndDocuments) {
  save(
      "q 0{2,1,3,2} k 0{2,1,4,2} v 0{2,1,4,2} m:u8 [[0,2,0,1],[255,0,0,0],[0,0,0,0]] "
      "b:bool [[0,1,0,1],[1,0,0,0],[0,0,0,0]] each:u8 [[[[1,0,0,1]]],[[[0,1,0,0]]]] n:i32 [3,0] long:i64 [3,0]");
  for (const std::string lengths : {"n", "long"}) {  // the second sequence has no keys
    expect_weights("--lengths " + lengths + ".npy",
                   "[[[[1,1,1,0],[1,1,1,0],[1,1,1,0]]],[[[0,0,0,0],[0,0,0,0],[0,0,0,0]]]]");
  }
  for (const std::string mask : {"m", "b"}) {
    expect_weights("--mask " + mask + ".npy", "[[[[0,1,0,1],[1,0,0,0],[0,0,0,0]]],[[[0,1,0,1],[1,0,0,0],[0,0,0,0]]]]");
  }
  const std::string logits = "[[[-inf,0,-inf,0],[0,-inf,-inf,-inf],[-inf,-inf,-inf,-inf]]]";
  expect("--mask m.npy --log-sum-exp l.npy --logits z.npy",
         "l [[[ln2,0,-inf]],[[ln2,0,-inf]]] z [" + logits + "," + logits + "]");
  expect_weights("--mask each.npy --causal top-left",
                 "[[[[1,0,0,0],[1,0,0,0],[1,0,0,0]]],[[[0,0,0,0],[0,1,0,0],[0,1,0,0]]]]");
  save("q 0{3,2} k 0{4,2} v 0{4,2} k_ids:i64 [7,7,2,7] q_ids:i32 [2,7,9]");
  expect_weights("--documents q_ids.npy --documents-key k_ids.npy", "[[0,0,1,0],[1,1,0,1],[0,0,0,0]]");
  save("q 0{4,2}");
  expect_weights("--documents k_ids.npy", "[[1,1,0,1],[1,1,0,1],[0,0,1,0],[1,1,0,1]]");
}

TEST_F(Attend, EmptyRows) {
  save("q 0{3,2} k 0{4,2} v 0{4,2} m:u8 [[1,1,1,0],[0,0,0,0],[1,0,1,1]]");
  const std::string mask = "--mask m.npy --weights w.npy --empty-rows ";
  expect(mask + "zero", "o [[0,0],[0,0],[0,0]] w [[1/3,1/3,1/3,0],[0,0,0,0],[1/3,0,1/3,1/3]]");
  expect(mask + "nan", "o [[0,0],[nan,nan],[0,0]] w [[1/3,1/3,1/3,0],[nan,nan,nan,nan],[1/3,0,1/3,1/3]]");
  EXPECT_TRUE(holds(folder_.text(kAttend + "--mask m.npy --empty-rows nan --verify 3"), "largest error 0,"));
}

TEST_F(Attend, SinksBiasAndAlibi) {
  save("q 0{2,3,2} k 0{2,4,2} v 0{2,4,2} s [ln4,-1e30] b [[ln2,0,0,0]] slopes [ln2,0] both [[ln2,0]]");
  const std::string eighths = "[1/8,1/8,1/8,1/8]", fourths = "[1/4,1/4,1/4,1/4]";
  expect("--sinks s.npy --weights w.npy --log-sum-exp l.npy", "l [[ln8,ln8,ln8],[ln4,ln4,ln4]] w [[" + eighths + "," +
                                                                  eighths + "," + eighths + "],[" + fourths + "," +
                                                                  fourths + "," + fourths + "]]");
  expect_weights("--bias b.npy", "[[[2,1,1,1],[2,1,1,1],[2,1,1,1]],[[2,1,1,1],[2,1,1,1],[2,1,1,1]]]");
  for (const std::string slopes : {"slopes", "both"}) {
    expect_weights("--alibi " + slopes + ".npy", "[[[8,4,2,1],[4,8,4,2],[2,4,8,4]],[[1,1,1,1],[1,1,1,1],[1,1,1,1]]]");
  }
  expect("--alibi slopes.npy --bias b.npy --dtype f64", "");  // slopes and bias in f32 widen
  expect_weights("--alibi slopes.npy --align bottom-right",
                 "[[[4,8,4,2],[2,4,8,4],[1,2,4,8]],[[1,1,1,1],[1,1,1,1],[1,1,1,1]]]");
}

// Tables of the logarithms of shares: [buckets, 1].
TEST_F(Attend, RelativeTables) {
  save(
      "q 0{1,3,2} k 0{1,4,2} v 0{1,4,2} t [[0],[ln2],[ln3],[ln4],[ln5]] near [[0],[ln3],[0]] "
      "t5 [[0],[ln2],[ln3],[ln9],[ln5],[ln6],[ln7],[ln8]] "
      "swin [[0],[ln2],[ln3],[ln4],[ln5],[ln6],[ln7],[ln8],[ln9]]");
  expect_weights("--clipped-table t.npy", "[[[3,4,5,5],[2,3,4,5],[1,2,3,4]]]");
  expect_weights("--clipped-table near.npy --align bottom-right", "[[[1,3,1,1],[1,1,3,1],[1,1,1,3]]]");
  // Distances 0 and 1 have a bucket each, 2 and more share one; keys behind the query the second half.
  expect_weights("--t5-table t5.npy --t5-max-distance 4", "[[[1,6,7,8],[2,1,6,7],[3,2,1,6]]]");
  expect_weights("--t5-table t5.npy --t5-bidirectional no", "[[[1,1,1,1],[2,1,1,1],[3,2,1,1]]]");
  // Four positions, two by two; three queries at the first ones.
  expect_weights("--swin-table swin.npy --swin-window 2,2", "[[[5,4,2,1],[6,5,3,2],[8,7,5,4]]]");
}

TEST_F(Attend, ScoresWithParameters) {
  save("q [[1]] k [[0],[1]] v [[1],[2]] a [[1]] b [[2]] c [3] w [[1,2]] s:f64 [[5]] three [[3]] signs [[1],[-2]]");
  for (const std::string score : {"additive --score-w-query a.npy --score-w-key b.npy", "concat --score-w w.npy"}) {
    expect("--score " + score + " --score-v c.npy --logits z.npy",
           fmt::format("z [[{},{}]]", 3 * std::tanh(1.0), 3 * std::tanh(3.0)));
  }
  expect("--score bilinear --score-w s.npy --logits z.npy --dtype f64", "z:f64 [[0,5]]", 1e-14);
  save("q [[3]] k [[1],[-2]]");
  expect("--scale -0.5 --soft-cap 2 --logits z.npy",
         fmt::format("z [[{},{}]]", 2 * std::tanh(-1.5 / 2), 2 * std::tanh(3.0 / 2)));
}

// Sequences of 1 and 2 queries over 3 and 1 keys; with queries of zero the output is the mean of the visible values.
TEST_F(Attend, PackedSequences) {
  save("q 0{3,1,2} k 1{4,1,2} v [[[1]],[[2]],[[6]],[[40]]] oq:i32 [0,1,3] ok:i64 [0,3,4]");
  expect(
      "--offsets-query oq.npy --offsets-key ok.npy --weights w.npy --logits z.npy --log-sum-exp l.npy",
      "o [[[3]],[[40]],[[40]]] w [[[1/3,1/3,1/3]],[[1,0,0]],[[1,0,0]]] z [[[0,0,0]],[[0,-inf,-inf]],[[0,-inf,-inf]]] "
      "l [[ln3],[0],[0]]");
}

// Two sequences of three keys and one, in pages of two rows; the third page holds what nobody may read.
TEST_F(Attend, PagedKeys) {
  save(
      "q 0{2,1,1,1} k [[[[1]],[[nan]]],[[[1]],[[1]]],[[[nan]],[[nan]]],[[[1]],[[nan]]]] "
      "v [[[[3]],[[nan]]],[[[5]],[[7]]],[[[nan]],[[nan]]],[[[11]],[[nan]]]] t:i32 [[1,0],[3,-1]] n:i32 [3,1]");
  expect("--block-table t.npy --lengths n.npy --weights w.npy",
         "o [[[[5]]],[[[11]]]] w [[[[1/3,1/3,1/3]]],[[[1,0,0]]]]");
  expect_message(folder_.run(kAttend + "--block-table t.npy"), 3, "qkv attend", "block_table[1, 1] is -1");
}

// Keys of equal score: the output is the mean of the values that a query sees.
TEST_F(Attend, AppendsToACache) {
  save("q 0{1,1,2,1} k [[[[2],[3]]]] v [[[[0],[9]]]] pk [[[[1]]]] pv [[[[6]]]] heads 1{1,2,1,1} flat [[1]]");
  expect(
      "--past-key pk.npy --past-value pv.npy --causal bottom-right --weights w.npy --present-key ak.npy "
      "--present-value av.npy",
      "o [[[[3],[5]]]] w [[[[1/2,1/2,0],[1/3,1/3,1/3]]]] ak [[[[1],[2],[3]]]] av [[[[6],[0],[9]]]]");
  expect("--past-key pk.npy --past-value pv.npy --dtype bf16", "o [[[[5],[5]]]]");
  expect_answers(folder_, kAttend + "--past-value pv.npy --past-key ",
                 {{"pk.npy --causal top-left", 3, ""}, {"heads.npy", 3, "rows of 2 heads"}, {"flat.npy", 3, ""}});
}

TEST_F(Attend, Verify) {
  save(worked_example());
  const std::string three = folder_.text(kAttend + "--verify 64");
  EXPECT_TRUE(three.starts_with("3 rows recomputed in double precision: largest error ")) << three;
  EXPECT_TRUE(holds(three, "largest value 7.81")) << three;
  // One query of two heads that share keys, of which only one has a slope.
  std::vector<float> numbers(40 * 16);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i * i % 97));
  write_npy(folder_ / "q.npy", Tensor::of<float>({2, 1, 16}, {numbers.begin(), numbers.begin() + 32}));
  for (const char* name : {"k.npy", "v.npy"}) write_npy(folder_ / name, Tensor::of<float>({1, 40, 16}, numbers));
  save("s [0,0.1]");
  const std::string slopes = folder_.text(kAttend + "--alibi s.npy --causal bottom-right --verify 2"),
                    said = "largest error ";
  ASSERT_TRUE(holds(slopes, said)) << slopes;
  EXPECT_LT(std::stod(slopes.substr(slopes.find(said) + said.size())), 1e-6) << slopes;
}

// Two keys of equal score: weights 1/2, 1/2. A tangent of 1 of the query moves their scores by 2 and 4, the weights by
// -1/2 and 1/2, and the output by (3 - 1) / 2; one of the values adds its mean.
TEST_F(Attend, Tangents) {
  save("q [[0,0]] k [[2,0],[4,0]] v [[1],[3]] tq [[1,0]] tk [[1,1],[1,1]] tv [[10],[20]]");
  const std::string query = "--scale 1 --tangent-query tq.npy --tangent-out t.npy ";
  expect(query, "o [[2]] t [[1]]");
  expect(query + "--tangent-value tv.npy --tangent-key tk.npy", "t [[16]]");
}

// Two keys of equal score: weights 1/2, 1/2; grad_out . values = 1, 3; logits' gradients 1/2 (1 - 2), 1/2 (3 - 2).
TEST_F(Attend, Gradients) {
  save("q [[2]] k [[5],[5]] v [[1],[3]] g [[1]] t [[0],[0],[0]] zero [0] ten [10] b [1,1] b1 [1,-1] b2 [[3,5]]");
  const std::string gradient = "--grad-out g.npy ";
  expect(gradient + "--grad-query dq.npy --grad-key dk.npy --grad-value dv.npy",
         "o [[2]] dq [[0]] dk [[-1],[1]] dv [[1/2],[1/2]]");
  // A table and slopes of 0 change nothing; dS = -1/2 at distance 0, 1/2 at distance 1.
  expect(gradient + "--clipped-table t.npy --grad-clipped-table dt.npy --alibi zero.npy --grad-alibi ds.npy",
         "dt [[0],[-1/2],[1/2]] ds [-1/2]");
  // Rows of Shaw's table are multiplied with the query, 2.
  expect(gradient + "--shaw-table t.npy --grad-shaw-table dt.npy", "dt [[0],[-1],[1]]");
  // A sink of the logit 10 that both keys have: three weights of 1/3, out = 4/3, and -1/3 * 4/3.
  expect(gradient + "--sinks ten.npy --grad-sinks ds.npy", "ds [-4/9]");
  expect(gradient + "--bias b.npy --grad-bias db.npy", "db [-1/2,1/2]");
  const std::string biases = "--bias b1.npy --bias b2.npy --grad-bias d1.npy ";
  expect(gradient + biases + "--grad-bias d2.npy --logits z.npy", "z [[14,14]] d1 [-1/2,1/2] d2 [[-1/2,1/2]]");
  expect(gradient + biases, "d1 [-1/2,1/2]");
}

// Three keys of equal score, weights 1/3. Along a tangent of 1 of the query the logits move by 2, 4 and 0, log-sum-exp
// by their mean 2, and the output by (2 + 12 + 0) / 3 - 2 * 3 = -4/3. With the words of attention_double_backward.h:
// A = 0, 2, -2; B = -2, 0, 2; C = 4/3, so that P (C + A B) = 4/9, 4/9, -8/9.
TEST_F(Attend, TangentOfLogSumExpAndSecondGradients) {
  save("q [[0]] k [[2],[4],[0]] v [[1],[3],[5]] tq [[1]] g [[1]]");
  expect("--tangent-query tq.npy --tangent-log-sum-exp tl.npy", "tl [2]");
  expect(
      "--tangent-query tq.npy --grad-out g.npy --second-grad-query ddq.npy --second-grad-key ddk.npy "
      "--second-grad-value ddv.npy --second-grad-out ddo.npy --tangent-out to.npy --grad-value dv.npy",
      "ddq [[8/3]] ddk [[-2/3],[0],[2/3]] ddv [[0],[2/3],[-2/3]] ddo [[-4/3]] to [[-4/3]] dv [[1/3],[1/3],[1/3]]");
}

// Equal scores make weights 1/20, and values [i == j] make them the output: a kept weight is divided by 3/4.
TEST_F(Attend, DropoutKeepsWhatTheMaskSays) {
  save("q 0{17,1} k 0{20,1}");
  const Tensor mask = read_npy(QKV_TEST_DATA "/golden/dropout/whole.npy");
  Tensor identity = Tensor::zeros({20, 20}), wanted = Tensor::zeros({17, 20}, Dtype::f64);
  for (int i = 0; i < 20; ++i) identity.data<float>()[21 * i] = 1;
  for (int i = 0; i < 17 * 20; ++i) wanted.data<double>()[i] = mask.data<std::uint8_t>()[i] / 15.0;
  write_npy(folder_ / "v.npy", identity);
  expect("--dropout 0.25 --seed 7", "");
  expect_array("o.npy", wanted, Dtype::f32, 2e-6);
}

// As on a full disk, with ulimit -f. The output alone would fit: a write that fails leaves none of the files.
TEST_F(Attend, WritesAllOrNothing) {
  save("q 0{100,3} k 0{100,3} v 0{100,3} o [7]");
  const auto before = folder_.files();
  for (const auto& [options, limit, name] : {std::tuple("--weights w.npy", 8192, "w"), {"--dtype f64", 2048, "o"}}) {
    const Outcome outcome = folder_.run(kAttend + options, {.file_size = std::size_t(limit)});
    expect_message(outcome, 4, "qkv attend", name + std::string(".npy: cannot write: File too large\n"));
    EXPECT_TRUE(folder_.files() == before);
  }
}

}  // namespace
}  // namespace qkv::test
