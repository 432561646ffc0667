// Where a compiled mask keeps what the last call made of its documents. Calls may share it across threads.
#pragma once

#include <memory>
#include <mutex>

namespace qkv {

inline namespace attending {
class Documents;
}

class KeptDocuments {
 public:
  // nullptr before the first call.
  std::shared_ptr<const attending::Documents> get() const {
    const std::lock_guard lock(mutex_);
    return documents_;
  }
  void set(std::shared_ptr<const attending::Documents> documents) {
    const std::lock_guard lock(mutex_);
    documents_.swap(documents);  // the old ones are freed after the lock
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const attending::Documents> documents_;
};

}  // namespace qkv
