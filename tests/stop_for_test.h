// Counts the questions whether to stop, and asks for a stop at one of them.
#pragma once

#include "core/stop.h"
#include "qkv/error.h"
#include "qkv/stop.h"

namespace qkv::test {

// What call() asks on this thread.
template <class Call>
std::int64_t questions_of(const Call& call) {
  const std::int64_t before = stop_checks();
  call();
  return stop_checks() - before;
}

// The most work of call(), on this thread alone, between two questions; done() is how much of it is done.
inline std::int64_t largest_gap(const std::function<void()>& call, const std::function<std::int64_t()>& done) {
  static const std::function<std::int64_t()>* counter;
  static std::int64_t before, largest;
  counter = &done;
  before = done();
  largest = 0;
  const auto ask = [] {
    const std::int64_t now = (*counter)();
    largest = std::max(largest, now - before);
    before = now;
  };
  set_stop_observer(ask);
  call();
  set_stop_observer(nullptr);
  ask();
  return largest;
}

// Its token asks for a stop from a question on, counted from 1 over all threads.
class StopAt {
 public:
  explicit StopAt(std::int64_t question) {
    source_ = {};
    left_ = question;
    set_stop_observer([] {
      if (--left_ == 0) source_.request_stop();
    });
  }
  ~StopAt() { set_stop_observer(nullptr); }
  StopAt(const StopAt&) = delete;
  StopAt& operator=(const StopAt&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  static inline std::stop_source source_{};
  static inline std::atomic<std::int64_t> left_{0};
};

// That call(), which does so much work on one thread, is asked often enough, and that it ends wherever it is asked. The
// next call may ask a little less: readers of JSON ask where their text crosses 64 KiB of addresses.
template <class Call>
void expect_stops(const Call& call, double work = 0) {
  const std::int64_t questions = questions_of(call);
  EXPECT_GE(static_cast<double>(questions), work / static_cast<double>(kStopWork));
  ASSERT_GE(questions, 1);
  for (const std::int64_t question : {std::int64_t{1}, (questions + 1) / 2, questions - questions / 8}) {
    const StopAt stop(question);
    const std::stop_token token = stop.token();
    const StopScope scope(token);
    EXPECT_THROW(call(), Stopped) << "question " << question << " of " << questions;
  }
}

}  // namespace qkv::test
