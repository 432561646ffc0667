// What tests of files need, and nearly all others too: a folder that vanishes after the test, the check that a file is
// refused with the expected words, tensors compared.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/tensor.h"

namespace qkv::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "qkv-test-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  std::string operator/(const std::string& name) const { return path_ / name; }

  // Writes a file without the library. A new one each time: ext4 waits for the disk where one is written over.
  std::string put(const std::string& name, std::string_view bytes) const {
    std::filesystem::remove(path_ / name);
    std::ofstream(path_ / name, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path_ / name;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) names.push_back(entry.path().filename());
    return names;
  }

 private:
  std::filesystem::path path_;
};

// Bytes of a file, read without the library.
inline std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string golden(const std::string& name) { return QKV_TEST_DATA "/golden/io/" + name; }

// Files of this process may not grow beyond `bytes` while this lives: writes fail half-way, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  void (*handler_)(int);
};

// The message of the Error that `call` throws; a failure if it throws none or another.
template <class Error, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

struct Malformed {
  std::string bytes;
  std::string fragment;  // of the message
};

// Each file must be refused with a FormatError that begins with its path and contains the fragment.
template <class Read>
void expect_refused(const std::vector<Malformed>& files, const std::string& name, Read read) {
  const TemporaryFolder folder;
  for (const auto& [bytes, fragment] : files) {
    const std::string path = folder.put(name, bytes);
    const std::string message = message_of<FormatError>([&] { read(path); });
    EXPECT_TRUE(message.starts_with(path + ": ") && message.find(fragment) != std::string::npos)
        << fragment << " is not said, but " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

// A part of a message, and the files that are refused with it.
using Refusals = std::vector<std::pair<std::string, std::vector<std::string>>>;

template <class Read>
void expect_all_refused(const Refusals& refusals, const std::string& name, Read read) {
  std::vector<Malformed> files;
  for (const auto& [fragment, all] : refusals) {
    for (const std::string& bytes : all) files.push_back({bytes, fragment});
  }
  expect_refused(files, name, read);
}

// Values of a tensor as double, for comparisons.
inline std::vector<double> values_of(const TensorView& view) {
  const Tensor converted = convert(view, Dtype::f64);
  return {converted.data<double>(), converted.data<double>() + converted.element_count()};
}

// 0, 1, 2, ... in row-major order.
inline Tensor counted(const Dims& shape, Dtype dtype) {
  Tensor numbers = Tensor::zeros(shape, Dtype::f64);
  for (std::int64_t i = 0; i < numbers.element_count(); ++i) numbers.data<double>()[i] = static_cast<double>(i);
  return convert(numbers, dtype);
}

inline void expect_equal(const TensorView& actual, const TensorView& expected) {
  EXPECT_EQ(actual.dtype(), expected.dtype());
  ASSERT_EQ(actual.shape(), expected.shape());
  EXPECT_EQ(values_of(actual), values_of(expected));
}

}  // namespace qkv::test
