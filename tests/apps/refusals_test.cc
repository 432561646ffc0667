// What each command refuses: the exit code and the words of its one line, after which every file is as it was.
#include "apps/attend.h"
#include "apps/tiny_bert.h"

namespace qkv::test {
namespace {

const Words kNotFinite = {"nan", "inf", "-inf", "1e400", "x", "''", "1,5"};
const Words kNoSeeds = {"-1", "18446744073709551616", "1.5", "+1", "0x1", "''", "1e3", "99999999999999999999"};
const std::string kNoSeed = "must be a whole number from 0 to 2^64 - 1";
const std::string kLoops = "Too many levels of symbolic links\n", kIsAlso = "is also the file of ";
const std::string kBert = "explain --model model --text 'a b a c' ", kDigits = QKV_SOURCE_DIR "/data/digits.csv";
const std::string kSitesAs = "must begin with encoder., decoder. or encoder-decoder.";
const std::string kPlan = "plan --heads 4 --kv-heads 2 --q-len 96 --k-len 128 --head-dim 32 --threads 1 ";

struct Group {
  const char* name;
  std::string before;  // the lines of all
  std::vector<Refusal> refusals;
};

const Group kGroups[] = {
    {"Attend",
     kAttend,
     {{"--scale ", 2, "--scale", kNotFinite},
      {"--soft-cap ", 2, "--soft-cap", kNotFinite},
      {"--soft-cap -1", 2, "--soft-cap"},
      {"--window ", 2, "LEFT,RIGHT", {"''", "1", ",", "1,", ",1", "1,2,3", "-2,0", "0,-2", "a,b", "1.5,2"}},
      {"--window 99999999999999999999,0", 2, "LEFT,RIGHT"},
      {"--dilated 1,0", 2, "must be three numbers LEFT,RIGHT,STEP"},
      {"--dilated 1,0,0", 2, "STEP is 0; it must be 1 or more"},
      {"--causal middle", 2, "top-left|bottom-right"},
      {"--align middle", 2, "top-left|bottom-right"},
      {"--align top-left", 2, "--align: has no effect"},
      {"--causal top-left --align top-left", 2, "--causal"},
      {"--score cosine", 2, "bilinear"},
      {"--dtype i8", 2, "bf16"},
      {"--threads 0", 2, "1 to 1024"},
      {"--empty-rows none", 2, "zero|nan"},
      {"--dropout 1.5", 2, "--dropout: \"1.5\" must be a number from 0 to 1"},
      {"--dropout nan", 2, "from 0 to 1"},
      {"--dropout 0.5 --seed ", 2, kNoSeed, {"-1", "18446744073709551616"}},
      {"--seed 7", 2, "--dropout"},
      {"--verify 0", 2, "--verify"},
      {"--verify x", 2, ": --verify: \"x\" must be a whole number from 1 to 1073741824 (see"},
      {"--memory-limit 0", 2, "--memory-limit"},
      {"--memory-limit 1", 3, "memory_limit"},
      {"--scale", 2, ": --scale needs X (see"},
      {"--causal", 2, ": --causal needs top-left|bottom-right (see"},
      {"--scale 1 --scale 2", 2, ": --scale takes 1 value, got 2 (see"},
      {"--query d", 2, ": --query takes 1 value, got 2 (see"},
      {"--foo", 2, ": unknown option \"--foo\" (see"},
      {"foo", 2, ": unexpected argument \"foo\" (see"},
      {"--scale 1 2", 2, ": unexpected argument \"2\" (see"},
      {"--swin-table a --swin-window 2", 2, ": --swin-window takes 2 values, got 1 (see"},
      {"--swin-table a --swin-window 2,3,4", 2, ": --swin-window takes 2 values, got 3 (see"},
      // Options without effect, or without those that they need.
      {"--top 3", 2, "--top-keys"},
      {"--top-keys t.npy", 2, "--top-weights"},
      {"--blocks 3", 2, "--block-weights"},
      {"--rows i64_1_3.npy", 2, "--row-weights"},
      {"--row-weights w.npy", 2, "--rows"},
      {"--prefix i32_2.npy --causal top-left", 2, "--causal"},
      {"--documents-key i32_4.npy", 2, "--documents"},
      {"--swin-table f32_9_1.npy", 2, "--swin-window"},
      {"--t5-max-distance 4", 2, "--t5-table"},
      {"--score bilinear", 2, "--score-w is missing"},
      {"--score-v f32_3.npy", 2, "--score-v"},
      {"--offsets-query i32_4.npy", 2, "--offsets-key"},
      {"--offsets-key i32_4.npy", 2, "--offsets-query"},
      {"--block-table i32_4.npy --offsets-key i32_4.npy", 2, "--offsets-key"},
      {"--past-key k.npy", 2, "--past-value"},
      {"--present-key p.npy", 2, "--past-key"},
      {"--past-key k.npy --past-value v.npy --grad-out v.npy --grad-key d.npy", 2, "--grad-out"},
      {"--past-key k.npy --past-value v.npy --verify 1", 2, "--verify"},
      {"--tangent-query q.npy", 2, "--tangent-out"},
      {"--tangent-out t.npy", 2, "--tangent-query"},
      {"--tangent-log-sum-exp t.npy", 2, "--tangent-query"},
      {"--second-grad-key d.npy", 2, "--grad-out"},
      {"--grad-out v.npy --second-grad-key d.npy", 2, "--tangent-query"},
      {"--grad-out v.npy", 2, "requires a gradient to write"},
      {"--grad-key d.npy", 2, "--grad-out"},
      {"--grad-out v.npy --grad-sinks d.npy", 2, "--sinks"},
      {"--grad-out v.npy --grad-bias d.npy", 2, "--bias"},
      {"--grad-out v.npy --bias f32_3_3.npy --grad-bias d.npy --grad-bias e.npy", 2,
       "--grad-bias: has 2 files for 1 of --bias"},
      // Places that cannot be written, or would lose data.
      {"--weights ", 2, "--query", {"q.npy", "./q.npy"}},
      {"--weights o.npy", 2, "--out"},
      {"--weights w.txt", 2, ".npy"},
      {"--bias f32_3_3.npy --logits f32_3_3.npy", 2, "--bias"},
      {"--weights ", 4, ".npy", {"nowhere/w.npy", "q.npy/w.npy", "folder.npy"}},
      {"--weights loop/o.npy", 4, "qkv attend: loop/o.npy: cannot write: " + kLoops},
      {"--weights loop.npy", 4, "qkv attend: loop.npy: cannot write: " + kLoops},
      // Files that cannot be read.
      {"--mask ", 2, "--mask", {"''", "--bias"}},
      {"--mask ", 4, ".npy", {"missing.npy", "folder.npy"}},
      {"--mask loop.npy", 4, "loop.npy: cannot read: " + kLoops},
      {"--mask ./", 3, ""}}},
    {"AttendArrays",
     kAttend,
     {{"--mask f32_3_3.npy", 3, "f32"},
      {"--mask u8_3_4.npy", 3, "[3, 4]"},
      {"--bias f32_2_3_3_3_3.npy", 3, "[2, 3, 3, 3, 3]"},
      {"--bias f64_3_3.npy", 3, "holds f64"},
      {"--bias i32_3_3.npy", 3, "holds i32"},
      {"--lengths i32_2.npy", 3, "lengths has 2 entries"},
      {"--lengths four.npy", 3, "lengths[0] is 4"},
      {"--lengths f32_1.npy", 3, "lengths must be i32 or i64"},
      {"--prefix minus.npy", 3, "prefix[0] is -1; it must be 0 or more"},
      {"--documents i32_4.npy", 3, "query documents [4]"},
      {"--alibi f32_5.npy", 3, "slopes"},
      {"--sinks f32_3.npy", 3, "sinks"},
      {"--shaw-table f32_2_3.npy", 3, "2 n + 1 rows"},
      {"--swin-table f32_9_1.npy --swin-window 3,2", 3, "(2 * 3 - 1)"},
      {"--score bilinear --score-w f64_3_3.npy", 3, "--score-w"},
      {"--row-weights w.npy --rows ", 3, "i64", {"f32_1_3.npy"}},
      {"--row-weights w.npy --rows ", 3, "rows", {"i64_3.npy", "i64.npy"}},
      {"--row-weights w.npy --rows row3.npy", 3, "3"},
      {"--empty-rows nan --grad-out v.npy --grad-query d.npy", 3, "empty_rows must be zero"},
      {"--tangent-value f32_3_4.npy --tangent-out t.npy", 3, "the tangent of value must be [1, 3, 3], got [1, 3, 4]"},
      {"--dtype bf16 --tangent-query q.npy --tangent-out t.npy", 3, "query has type bf16; it must be f32 or f64"}}},
    {"AttendKeys",
     "attend --query q.npy --value v.npy --out o.npy --key ",
     {{"f32_3_4.npy", 3, "head_dim 4"},
      {"f32_5_3.npy", 3, "value must be [1, 5, 3]"},
      {"f32_2_3_3.npy", 3, "[2, 3, 3]"},
      {"f32_3.npy", 3, "[3]"},
      {"f32.npy", 3, "[]"},
      {"f64_3_3.npy", 3, "holds f64"},
      {"i32_3_3.npy", 3, "holds i32"},
      {"bad/", 3, "bad/", {"empty.npy", "text.npy", "head.npy", "short.npy", "long.npy"}}}},
    {"AttendPacked",
     "attend --query f32_3_1_2.npy --key f32_4_1_2.npy --value f32_4_1_2.npy --out o.npy --weights w.npy "
     "--offsets-query starts.npy --offsets-key ",
     {{"", 3, "offsets", {"far.npy", "f32_3.npy"}}}},
    {"AttendReport",
     kAttend,
     {{"--html o.npy", 2, kIsAlso + "--out"},
      {"--html q.npy", 2, kIsAlso + "--query"},
      {"--keep 0.0", 2, "--keep requires --html"},
      {"--html a.html --keep 7", 2, "--keep: \"7\" must be two numbers, BATCH.HEAD"},
      {"--html a.html --keep 0.9", 3, "there is no head 0.9 to keep"},
      {"--html a.html --keep 0.0 --keep-rows 3", 3, "there is no row 3 to keep"},
      {"--html a.html --block-weights b.npy", 2, "cannot be combined with"}}},
    {"Explain",
     "explain ",
     {{"--inputs 0", 2, ": --inputs: \"0\" must be a whole number from 1 to 4096 (see"},
      {"--json=x", 2, ": --json takes no value (see"},
      {"--inputs 3 --input x", 2, ": --input cannot be combined with --inputs (see"},
      {"--layer 1 --head 1", 2, ": --layer: needs --text or --image, what the model is to read (see"},
      {"--layer 1", 2, ": --layer requires --head (see"},
      {"--weights", 2, "--weights requires --json"},
      {"--inputs 2 --seed ", 2, kNoSeed, kNoSeeds},
      {"--seed 5", 2, "--seed: has no effect: all numbers are given"},
      {"--input [[1,2]] --w-query [[1,0],[0,1]] --w-key [[1,0],[0,1]] --w-value [[1,0],[0,1]] ",
       2,
       ": has no effect",
       {"--seed 5", "--init normal"}},
      {"--w-query [[1]] --key-dim 2", 2, "--w-query cannot be combined with --key-dim"},
      {"--w-value [[1]] --value-dim 2", 2, "--w-value cannot be combined with --value-dim"},
      {"--score-v [1,2]", 2, "--score-v"},
      {"--score concat --score-w-key [[1]]", 2, "--score-w-key"},
      {"--score concat --score-w [[1,2]]", 3, "score_w"},
      {"--json --width 80", 2, "--json"},
      {"--heat --json", 2, "cannot be combined with"},
      {"--width 39", 2, "--width"},
      {"--init random", 2, "normal|xavier|kaiming"},
      {"--scale nan", 2, "finite"},
      {"--input [[1,2],[3]]", 3, "--input"},
      {"--input missing.csv", 4, "missing.csv"},
      {"--input " + kDigits + " --inputs 3", 2, "--input"},
      {"--w-query [[1,2],[3,4]]", 3, "w_query must have 4 rows"},
      {"--substitute wait=[[1]]", 3, "no \"wait\" to substitute; there are inputs, query"},
      {"--substitute weights", 2, "NAME=FILE or NAME=JSON"},
      {"--substitute weights=[[1]]", 3, "must be [3, 3] in f64, got [1, 1]"},
      {"--substitute weights=[[1]] --substitute weights=[[0]]", 2, "--substitute: weights is substituted twice"},
      {"--step 5", 2, "--step requires --svg"},
      {"--svg a --html a", 2, kIsAlso + "--svg"},
      {"--text Hello --svg a", 2, "--svg: needs --layer and --head"},
      {"--text Hello --svg a --step 1", 2, "--step: cannot be combined with --text"},
      {"--input input.csv --html ./input.csv", 2, kIsAlso + "--input"},
      {"--substitute weights=input.csv --html input.csv", 2, kIsAlso + "--substitute"},
      {"--model model --text a --html model/config.json", 2, kIsAlso + "--model"},
      {"--html ./", 4, "is a folder"},
      {"--html none/a.html", 4, "does not exist"},
      {"--html a.html --text Hi --beside steps.json", 3,
       "steps.json: holds a run of the kind \"steps\", this one is of the kind \"heads\""},
      {"--html a.html --beside newer.json", 3, "newer.json: is of version 2, this qkv reads version 1"},
      {"--html a.html --beside notes.json", 3, "notes.json: not valid JSON at line 1, column 2"},
      {"--html a.html --beside none.json", 4, "none.json"},
      {"--html a.html --beside ./", 4, ""},
      {"--html steps.json --beside steps.json", 2, kIsAlso + "--beside"},
      {"--beside steps.json", 2, "--beside requires --html"},
      {"--keep 0.0 --json", 2, "--keep: needs --text"}}},
    {"ExplainModel",
     "explain ",
     {{"--model model", 2, "--model: needs --text or --image"},
      {"--without-head 0.1", 2, "--without-head: needs --text or --image"},
      {"--text Hi --without-head 0.1", 2, kSitesAs},
      {"--text Hi --without-key decode.1", 2, kSitesAs},
      {"--model /nowhere --text a", 4, "/nowhere/config.json"}}},
    {"ExplainBert",
     kBert,
     {{"--layer 1", 2, "--layer requires --head"},
      {"--without-head ", 2, "\" must be a layer and a head, as 0.1", {"1", "1.", ".1", "a.b", "0.1x", "0.1.2", "''"}},
      {"--weights", 2, "--weights requires --json"},
      {"--weights --json --layer 1 --head 1", 2, "--layer cannot be combined with --weights"},
      {"--weights --json --token a", 2, "--token cannot be combined with --weights"},
      {"--input [[1]]", 2, "--input: cannot be combined with --text"},
      {"--seed 3", 2, "--seed: cannot be combined with --text"},
      {"--without-head 2.0", 3, "there is no layer 2; the model has layers 0 to 1"},
      {"--without-key 4", 3, "there is no token \"4\"; the tokens, 0 to 3, are: a b a ?"},
      {"--layer 2 --head 0", 3, "there is no layer 2; the model has layers 0 to 1"},
      {"--token x", 3, "there is no token \"x\"; the tokens, 0 to 3, are: a b a ?"},
      {"--layer 0 --head 0 --token x", 3, "there is no token \"x\"; the tokens, 0 to 3, are: a b a ?"},
      {"--layer 0 --head 0 --token ''", 3, "there is no token \"\""}}},
    {"LongReport",
     kBert,
     {{"--keep 0.0", 2, "--keep: needs --html or --json"},
      {"--html a.html --keep-rows 1", 2, "--keep-rows requires --keep"},
      {"--html a.html --keep 7", 2, "--keep: \"7\" must be a layer and a head, as 0.1"},
      {"--html a.html --keep 2.0", 3, "there is no head 2.0 to keep; the layers are 0 to 1, the heads 0 to 2"},
      {"--html a.html --keep 0.0 --keep-rows 4", 3, "there is no row 4 of head 0.0 to keep"},
      {"--html a.html --keep 0.0,0.1,0.2,1.0,1.1", 3, "5 heads are more than the 4 that can be kept"},
      {"--html a.html --keep 0.0 ", 2, "cannot be combined with", {"--layer 0 --head 0", "--token 0"}}}},
    {"Translate",
     "translate ",
     {{"--model /nowhere a", 4, "/nowhere/config.json"},
      {"--beams 0 a", 2, "--beams"},
      {"--beams 2 --nbest 3 a", 3, "nbest"},
      {"--seed 1 a", 2, "--seed requires --sample"},
      {"a --sample --seed ", 2, kNoSeed, {"-1", "18446744073709551616"}},
      {"a --beams", 2, "--beams needs N ("},
      {"a --nbest", 2, "--nbest needs N ("},
      {"a --max-length", 2, "--max-length needs N ("},
      {"a --top-k", 2, "--top-k needs N ("},
      {"a --weights int4", 2, "must be one of f32|bf16|int8"},
      {"--explain", 2, "--explain requires text"},
      {"--without-head encoder.0.1 a", 2, "--without-head requires --explain"},
      {"--without-key encoder.a a", 2, "--without-key requires --explain"},
      {"--explain --without-head 0.1 Hi", 2, "--without-head: \"0.1\" " + kSitesAs},
      {"--explain --without-key encoder.Bye Hi", 3, "there is no token \"Bye\""},
      {"--html a.html Hi", 2, "--html requires --explain"},
      {"--explain --keep encoder.0.0 Hi", 2, "--keep: needs --html or --json"},
      {"--explain --json --keep 0.0 Hi", 2, "--keep: \"0.0\" " + kSitesAs},
      {"--keep encoder.0.0 --json Hi", 2, "--keep requires --explain"}}},
    {"TranslateIds",
     "translate --model @tests/golden/translate/relu ",
     {{"a", 3, "tokenizer.json is missing"},
      {"--ids '1 x'", 3, "line 1: \"1 x\" must be ids"},
      {"--ids ''", 3, "line 1 has no ids"},
      {"--ids 99999999999", 3, "must be ids"},
      {"--ids '1 41'", 3, "line 1: id 41 must be from 0 to 40"},
      {"--ids -- -1", 3, "line 1: id -1 must be"},
      {"--ids '1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1'", 3, "reads at most 32"}}},
    {"Embed",
     "embed ",
     {{"", 2, "--model is required"},
      {"--model model --weights int4", 2, "must be one of f32|bf16|int8"},
      {"--model /nowhere", 4, "/nowhere/config.json"},
      {"--model loop", 4, "qkv embed: loop/config.json: cannot read: " + kLoops}}},
    {"Web",
     "web ",
     {{"", 2, "--out is required"},
      {"--out page.html --model nowhere", 4, "nowhere"},
      {"--out none/page.html", 4, "does not exist"},
      {"--out model/config.json --model model", 2, kIsAlso + "--model"}}},
    {"TokenizerTrain",
     "tokenizer train ",
     {{"--vocab 300 --out t.json", 2, "--input is required"},
      {"--input /nowhere --vocab 300 --out t.json", 4, "/nowhere: cannot read"},
      {"--input /dev/null --vocab 300 --out t.json", 4, "/dev/null: cannot read: not a regular file"},
      {"--input /nowhere --out t.json --vocab ", 2, "--vocab", {"258", "1e4"}},
      {"--input input.csv --vocab 300 --out /nowhere/t.json", 4, "/nowhere/t.json"}}},
    {"Train", "train ", {{"", 2, "--config is required"}}},
    {"Plan",
     kPlan,
     {{"--memory-limit 1000", 3, "memory_limit is 1000"},
      {"--memory-limit 0", 2, "--memory-limit"},
      {"--lengths 1,2", 3, "lengths has 2 entries for a batch of 1"},
      {"--lengths x", 2, "--lengths"},
      {"--lengths 0x3", 2, "--lengths: \"0x3\" must be a whole number"},
      {"--prefix 1,b", 2, "--prefix: \"b\" must be a whole number"},
      {"--mask none.npy", 4, "none.npy"},
      {"--documents-key i32_4.npy", 2, "--documents"},
      {"--precision half", 2, "--precision"},
      {"--pass sideways", 2, "--pass"},
      {"--pass jvp --soft-cap 2", 3, "soft_cap"},
      {"--pass backward --outputs weights", 2, "--outputs"},
      {"--outputs wight", 2, "\"wight\" must be one of block-weights, entropy"}}},
    {"PlanSizes",
     "plan ",
     {{"--heads 4 --kv-heads 3 --q-len 1 --k-len 1", 2, "--kv-heads"},
      {"--k-len 1", 2, "--q-len"},
      {"--q-len 8 --k-len 20 --head-dim 0x3", 2, "--head-dim: \"0x3\" must be a whole number from 1 to "}}},
    {"Bench",
     "bench ",
     {{"attention --q-len 8", 2, "--k-len is required"},
      {"attention --q-len 8 --k-len ", 2, "--k-len", {"0", "-1", "x", "1.5", "99999999999999999999"}},
      {"attention --q-len 1000000000000 --k-len 8", 2, "GB"},
      {"attention --q-len 8 --k-len 8 --heads 3 --kv-heads 2", 2, "--kv-heads"},
      {"attention --q-len 8 --k-len 8 --head-dim 2000", 2, "1024"},
      {"attention --q-len 8 --k-len 8 --pass sideways", 2, "forward|backward|both"},
      {"attention --q-len 8 --k-len 8 --dropout 0.5 --seed ", 2, kNoSeed, {"-1", "18446744073709551616"}},
      {"matmul --m 1 --k 1099511627776 --n 1099511627776", 2, "GB"}}},
    {"Compare",
     "compare --out out ",
     {{"--tasks recal", 2, "\"recal\" must be one of recall, copy, key-value, reversal, phrases"},
      {"--models rnn,mamba", 2, "\"mamba\" must be one of rnn, lstm, gru, cnn, transformer, seq2seq-fixed"},
      {"--tasks reversal --models cnn", 3, "reversal is for seq2seq-fixed"}}},
    {"Completions", "completions ", {{"ksh", 2, "\"ksh\" must be one of bash|zsh|fish"}, {"", 2, "shell is required"}}},
    {"Manual", "manual ", {{"--out input.csv/pages", 4, "input.csv"}}},
    {"Info",
     "info ",
     {{"--frobnicate", 2, "--frobnicate"},
      {"surplus", 2, "surplus"},
      {"plan", 2, ": unexpected argument \"plan\" (see"},
      {"'two\nlines\x1b[31m'", 2, "two?lines?[31m"},
      {"--threads ", 2, "--threads", {"0", "-1", "1025", "many", "1.5", "99999999999999999999", "''"}}}}};

class ProgramRefusals : public testing::TestWithParam<Group> {
 protected:
  // The worked example, arrays of zeros whose names say their types and shapes, and what else the lines name.
  static void SetUpTestSuite() {
    namespace fs = std::filesystem;
    folder_ = std::make_unique<TinyBert>();
    save_worked_example<float>(*folder_);
    for (const Dims& shape :
         {Dims{}, {1}, {3}, {5}, {1, 3}, {2, 3}, {3, 3}, {3, 4}, {5, 3}, {9, 1}, {2, 3, 3}, {3, 1, 2}, {4, 1, 2}}) {
      put_zeros(shape, Dtype::f32);
    }
    put_zeros({2, 3, 3, 3, 3}, Dtype::f32);
    put_zeros({3, 4}, Dtype::u8);
    put_zeros({3, 3}, Dtype::f64);
    for (const Dims& shape : {Dims{2}, {4}, {3, 3}}) put_zeros(shape, Dtype::i32);
    for (const Dims& shape : {Dims{}, {3}, {1, 3}}) put_zeros(shape, Dtype::i64);
    save<std::int32_t>(*folder_, "four.npy", {1}, {4});
    save<std::int32_t>(*folder_, "minus.npy", {1}, {-1});
    save<std::int64_t>(*folder_, "row3.npy", {1, 3}, {0, 0, 3});
    save<std::int32_t>(*folder_, "starts.npy", {3}, {0, 1, 3});
    save<std::int32_t>(*folder_, "far.npy", {3}, {0, 3, 1000000000});
    const std::string whole = slurp(*folder_ / "q.npy");
    for (const char* name : {"bad", "folder.npy"}) fs::create_directory(*folder_ / name);
    folder_->put("bad/empty.npy", "");
    folder_->put("bad/text.npy", "hello");
    folder_->put("bad/head.npy", whole.substr(0, 60));
    folder_->put("bad/short.npy", whole.substr(0, whole.size() - 1));
    folder_->put("bad/long.npy", whole + "x");
    for (const char* name : {"loop", "loop.npy"}) fs::create_symlink(name, *folder_ / name);
    folder_->put("input.csv", "1,2\n3,4\n");
    std::string steps = R"({"schema": "qkv/explain/1", "kind": "steps"})";
    folder_->put("steps.json", steps);
    folder_->put("newer.json", steps.replace(steps.find("explain/1"), 9, "explain/2"));
    folder_->put("notes.json", "no JSON");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static void put_zeros(const Dims& shape, Dtype dtype) {
    std::string name(name_of(dtype));
    for (const std::int64_t size : shape) name += "_" + std::to_string(size);
    write_npy(*folder_ / (name + ".npy"), Tensor::zeros(shape, dtype));
  }

  static std::unique_ptr<TinyBert> folder_;
};
std::unique_ptr<TinyBert> ProgramRefusals::folder_;

TEST_P(ProgramRefusals, AreOneLineEach) { expect_refusals(*folder_, GetParam().before, GetParam().refusals); }

INSTANTIATE_TEST_SUITE_P(, ProgramRefusals, testing::ValuesIn(kGroups),
                         [](const auto& group) { return std::string(group.param.name); });

}  // namespace
}  // namespace qkv::test
