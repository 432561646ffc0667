// The commands of the program.
#include "commands.h"

#include "lab/models/recurrent_family.h"

namespace qkv::app {

void add_commands(Command& program) {
  add_recurrent_family();
  add_certify(program);
  add_classify(program);
  add_compare(program);
  add_embed(program);
  add_rank(program);
  add_fill(program);
  add_tag(program);
  add_answer(program);
  add_explain(program);
  add_generate(program);
  add_attend(program);
  add_info(program);
  add_plan(program);
  add_bench(program);
  add_tokenizer(program);
  add_train(program);
  add_convert(program);
  add_translate(program);
  add_web(program);
  add_completions(program);
  add_manual(program);
}

}  // namespace qkv::app
