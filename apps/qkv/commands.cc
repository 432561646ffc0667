// The commands of the program.
#include "commands.h"

#include "lab/models/recurrent_family.h"
#include "models/panel_file.h"
#include "notes.h"

namespace qkv::app {

void add_commands(Command& program) {
  add_recurrent_family();
  set_unfit_panels([](const std::string& line) { note(line + ", so it is not used; qkv pack rebuilds it"); });
  program.add_examples(
      {{"Attention in eight steps, number by number", "qkv explain"},
       {"Translate, and show which words each word came from", "qkv translate --explain 'You are welcome'"},
       {"Attention over arrays in files", "qkv attend --query q.npy --key k.npy --value v.npy --out o.npy"}});
  // In the order of use, which help keeps.
  add_explain(program);
  add_attend(program);
  add_translate(program);
  add_generate(program);
  add_embed(program);
  add_rank(program);
  add_classify(program);
  add_fill(program);
  add_tag(program);
  add_answer(program);
  add_train(program);
  add_tokenizer(program);
  add_convert(program);
  add_pack(program);
  add_plan(program);
  add_bench(program);
  add_compare(program);
  add_web(program);
  add_info(program);
  add_certify(program);
  add_completions(program);
  add_manual(program);
}

}  // namespace qkv::app
