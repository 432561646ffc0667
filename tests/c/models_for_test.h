// Models of tests/golden, opened from C.
#pragma once

#include "qkv/qkv.h"

namespace qkv::test {

inline std::string golden_folder(const std::string& name) { return QKV_TEST_DATA "/golden/" + name; }

class CModel {
 public:
  CModel(const std::string& name, int task) {
    EXPECT_EQ(qkv_open(golden_folder(name).c_str(), task, QKV_STORE_F32, &model_), QKV_OK) << qkv_message();
  }
  CModel(const CModel&) = delete;
  ~CModel() { qkv_close(model_); }

  const qkv_model* get() const { return model_; }

 private:
  qkv_model* model_ = nullptr;
};

}  // namespace qkv::test
