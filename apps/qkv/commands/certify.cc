// qkv certify: whether this machine computes with the arithmetic of docs/arithmetic.md; and certificates of models.
#include "qkv/pipelines/certify.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "core/share.h"
#include "inputs/options.h"
#include "notes.h"
#include "qkv/models/find_model.h"
#include "qkv/target.h"
#include "qkv/version.h"
#include "signals.h"

namespace qkv::app {
namespace {

struct CertifyRequest {
  std::string model{}, expected{};
  ModelStorage storage{};
  bool json = false;
  std::optional<std::int64_t> ways{};  // prompts
};

// The computed results.
struct Certified {
  std::vector<CertifiedCase> cases;
  std::string target, certificate, difference;  // the last two of a model
  std::vector<WayOfWriting> ways;

  std::size_t parted() const {
    return static_cast<std::size_t>(std::ranges::count_if(cases, [](const auto& each) { return !each.holds(); }));
  }
  bool writes_alike() const {
    return std::ranges::all_of(ways, [&](const WayOfWriting& way) { return way.digest == ways.front().digest; });
  }
  bool holds() const { return parted() == 0 && difference.empty() && writes_alike(); }
};

Certified computed(const CertifyRequest& request) {
  const WorkingLine line("computing");
  const FingerprintOptions options{.stop = interruption()};
  ShareTurns turns(1 + (request.model.empty() ? 0 : 1) + (request.ways ? 1 : 0), ShareTurns::divided);
  Certified found;
  found.target = selected_target();
  if (!request.expected.empty()) {
    of_option("--expect", [&] { return difference_of_certificates(request.expected, request.expected); });
  }
  if (!request.model.empty()) {
    found.certificate = certificate(find_model(request.model), request.storage.of_model(), options);
    if (!request.expected.empty()) {
      found.difference = difference_of_certificates(found.certificate, request.expected);
    }
    turns.next();
  }
  found.cases = certify(options);
  turns.next();
  if (request.ways) {
    const Generator generator = Generator::load(find_language_model(request.model), request.storage.of_model());
    const auto file = std::filesystem::temp_directory_path() / fmt::format("qkv_{}.session", getpid());
    found.ways = ways_of_writing(generator, static_cast<std::size_t>(*request.ways), file.string(), options);
  }
  return found;
}

// The error, and its cause if known.
std::string complaint(const Certified& found) {
  if (!found.writes_alike()) return "the model's texts depend on how the work is split: please report this";
  if (found.parted() == 0) return "the model's certificates differ in " + found.difference;
  const auto all = targets();
  const bool is_fused = std::ranges::find_if(all, &Target::selected)->fused;
  return fmt::format("{} differs from arithmetic {} in {} of {} results: {}", found.target, kArithmetic, found.parted(),
                     found.cases.size(),
                     is_fused ? "please report it" : "it has no fused multiply-add (docs/arithmetic.md)");
}

void print_text(const Certified& found) {
  for (const CertifiedCase& each : found.cases) {
    fmt::print("{:016x} {}{}\n", each.digest, each.name,
               each.holds() ? "" : fmt::format(": differs; expected {:016x}", each.expected));
  }
  if (found.parted() == 0) fmt::print("{} computes with arithmetic {}\n", found.target, kArithmetic);
  if (!found.certificate.empty()) fmt::print("{}\n", found.certificate);
  for (const auto& [name, digest] : found.ways) fmt::print("{} {}\n", digest, name);
}

void print_json(const Certified& found) {
  nlohmann::ordered_json json = {{"target", found.target}, {"arithmetic", kArithmetic}, {"holds", found.holds()}};
  for (const CertifiedCase& each : found.cases) {
    json["cases"].push_back({{"name", each.name},
                             {"digest", fmt::format("{:016x}", each.digest)},
                             {"expected", fmt::format("{:016x}", each.expected)}});
  }
  if (!found.certificate.empty()) json["certificate"] = found.certificate;
  if (!found.difference.empty()) json["difference"] = found.difference;
  for (const auto& [name, digest] : found.ways) json["ways"].push_back({{"name", name}, {"digest", digest}});
  fmt::print("{}\n", json.dump(2));
}

}  // namespace

void add_certify(Command& program) {
  Command& command = program.add_command("certify", "Check that this machine computes the same bits as others");
  command.add_examples({{"This machine", "qkv certify"},
                        {"A model, to compare with another machine", "qkv certify --model models/digits"}});
  const auto request = std::make_shared<CertifyRequest>();
  command.add(
      {{"--model", file(request->model, "FOLDER"),
        "Also print this model's certificate: equal on machines whose results have the same bits"},
       {"--expect", text(request->expected, "CERTIFICATE"),
        "Certificate or fingerprint of the model from another machine, to compare with", needs("--model")},
       {"--ways", whole(request->ways, 1, 1 << 20),
        "Let the language model continue N random prompts in twelve ways (whole, in chunks, batched, reordered, "
        "resumed, with drafts, on 1, 2 and 5 threads ...), and print one SHA-256 for each",
        needs("--model")},
       {"--json", flag(request->json), "Print one JSON object"}});
  command.add(storage_options(request->storage));
  command.on_run([request] {
    const Certified found = computed(*request);
    request->json ? print_json(found) : print_text(found);
    if (!found.holds()) throw Parted(complaint(found));
  });
}

}  // namespace qkv::app
