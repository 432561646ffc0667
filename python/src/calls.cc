// The helper thread of a long call, and the wait for it that looks for signals.
#include "calls.h"

#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "qkv/error.h"
#include "qkv/stop.h"

namespace qkv::python {
namespace {

namespace nb = nanobind;

bool on_main_thread() {
  const nb::module_ threading = nb::module_::import_("threading");
  return threading.attr("main_thread")().is(threading.attr("current_thread")());
}

// SIGINT as the system has it, until the end of the scope.
class DefaultInterrupt {
 public:
  DefaultInterrupt() : before_(std::signal(SIGINT, SIG_DFL)) {}
  ~DefaultInterrupt() { std::signal(SIGINT, before_); }
  DefaultInterrupt(const DefaultInterrupt&) = delete;
  DefaultInterrupt& operator=(const DefaultInterrupt&) = delete;

 private:
  void (*before_)(int);
};

void run_watched(const std::function<void()>& work, SecondSignal second) {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  std::exception_ptr failure;
  std::stop_source stop;
  std::optional<nb::python_error> raised;
  std::optional<DefaultInterrupt> interrupt;
  {
    const nb::gil_scoped_release released;
    std::thread thread([&] {
      try {
        const StopScope scope(stop.get_token());
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      done = true;
      ended.notify_one();
    });
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, std::chrono::milliseconds(20), [&] { return done; })) {
      if (stop.stop_requested()) continue;
      lock.unlock();
      {
        const nb::gil_scoped_acquire acquired;
        if (PyErr_CheckSignals() != 0) {
          raised.emplace();
          if (second == SecondSignal::ends_the_process) interrupt.emplace();
          stop.request_stop();
        }
      }
      lock.lock();
    }
    lock.unlock();
    thread.join();
  }
  if (raised) throw std::move(*raised);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

void run_erased(double operations, const std::function<void()>& work, SecondSignal second) {
  if (operations >= kLongOperations && on_main_thread()) return run_watched(work, second);
  const nb::gil_scoped_release released;
  work();
}

}  // namespace qkv::python
