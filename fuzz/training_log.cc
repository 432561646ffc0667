// Any bytes as the log of a training, to be gone on with from step 100.
#include "train/training_log.h"

#include "reader.h"

void read(std::string_view bytes) {
  const qkv::training::TrainingLog log(qkv::fuzz::folder_with("log.jsonl", bytes) + "/log.jsonl", 100);
  for (const qkv::training::CurvePoint& point : log.training()) {
    if (point.step < 0 || point.step > 100) __builtin_trap();
  }
}
