#include "cli/checkpoints/actions.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <ostream>
#include <utility>

#include "checkpoint/format/layout.hpp"
#include "checkpoint/interchange/catalogue.hpp"
#include "checkpoint/interchange/export.hpp"
#include "checkpoint/interchange/fetch.hpp"
#include "checkpoint/interchange/import.hpp"
#include "checkpoint/interchange/removal.hpp"
#include "checkpoint/interchange/safetensors_file.hpp"
#include "checkpoint/interchange/tensor_file.hpp"
#include "checkpoint/interchange/verify.hpp"
#include "cli/checkpoints/choice.hpp"
#include "cli/checkpoints/listing.hpp"
#include "cli/checkpoints/reading.hpp"
#include "cli/text/output.hpp"
#include "common/clock.hpp"
#include "common/exit_codes.hpp"
#include "common/try.hpp"
#include "storage/uri.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;
using checkpoint::Catalogue;
using checkpoint::folder_key;
using checkpoint::Listed;
using checkpoint::Manifest;
using checkpoint::Standing;

/// The store of a command's prefix, and the checkpoints in it.
struct Opened {
  std::unique_ptr<storage::Store> store;
  Catalogue catalogue;
  Wish wish;
};

Result<Opened> open(const CheckpointsOptions& options) {
  checkpoint::Place place = checkpoint::parse_place(options.uri);
  auto store = TRY(open_for_reading(place.prefix_uri, options.s3, options.is_stopped));
  auto catalogue = TRY(checkpoint::read_catalogue(*store));
  return Opened{
      .store = std::move(store), .catalogue = std::move(catalogue), .wish = {.id = place.id, .step = options.step}};
}

int report(const Streams& streams, const CheckpointsOptions& options, const Error& error) {
  return report(streams, fail(options.uri, error).value());
}

void print_notes(const Streams& streams, const Choice& choice) {
  for (const std::string& note : choice.notes) streams.err << "note: " << printable(note) << '\n';
}

/// Returns the tensors that are not finite.
Result<std::vector<checkpoint::NonFiniteTensor>> write_export(const Opened& opened, const Manifest& manifest,
                                                              const CheckpointsOptions& options) {
  const auto plan = TRY(plan_export(manifest, {.is_all = options.is_all, .prefix = options.only}));
  auto file = TRY(checkpoint::NewFile::create(options.target, options.is_forced));
  checkpoint::DataStream data{*opened.store, manifest};
  const bool is_safetensors = options.target.ends_with(checkpoint::safetensors_ending);
  auto not_finite = TRY(is_safetensors ? write_safetensors(data, manifest, plan, file) : write_torch(data, plan, file));
  TRY(file.commit());
  return not_finite;
}

/// The checkpoints to verify, at least one.
Result<std::vector<checkpoint::CheckpointId>> ids_to_verify(const Opened& opened, bool is_all) {
  std::vector<checkpoint::CheckpointId> ids;
  if (!is_all) {
    return choose_to_verify(opened.catalogue, opened.wish).map([&](const Choice& choice) {
      ids.push_back(choice.listed->id);
      return std::move(ids);
    });
  }
  for (const Listed& listed : opened.catalogue.checkpoints) {
    if (listed.standing != Standing::unfinished) ids.push_back(listed.id);
  }
  if (ids.empty()) return fail(ErrorKind::not_found, "there is no complete checkpoint here");
  return ids;
}

/// The store to import into. Its folder need not exist yet.
Result<std::unique_ptr<storage::Store>> open_to_import(const CheckpointsOptions& options) {
  if (checkpoint::parse_place(options.uri).id)
    return fail(ErrorKind::invalid,
                fmt::format("{} is the URI of one checkpoint: give the folder or prefix to import into", options.uri));
  const auto parsed = storage::parse_uri(options.uri);
  if (parsed && parsed->scheme == storage::Scheme::web) return tl::unexpected(storage::read_only(options.uri));
  auto store = TRY(storage::open_store(options.uri, options.s3));
  return std::make_unique<StoppableStore>(std::move(store), options.is_stopped);
}

Result<checkpoint::Imported> import_file(const CheckpointsOptions& options) {
  const CutFileGuard guard{options.source};
  const auto file = TRY(checkpoint::TensorFile::open(options.source));
  return open_to_import(options).and_then([&](const std::unique_ptr<storage::Store>& store) {
    return checkpoint::import_tensors(*store, file.tensors(), fs::path{options.source}.filename().string(),
                                      SystemClock{}.now());
  });
}

std::string question_of(const Listed& listed, const storage::Store& store) {
  return fmt::format("Remove {} ({}, {})?", store.uri_of(folder_key(listed.id)), human_bytes(listed.bytes),
                     to_string(listed.standing));
}

}  // namespace

int list_checkpoints(const CheckpointsOptions& options, const Streams& streams) {
  auto opened = open(options);
  if (!opened) return report(streams, opened.error());
  if (opened->wish.id) {
    std::erase_if(opened->catalogue.checkpoints, [&](const Listed& listed) { return listed.id != *opened->wish.id; });
    if (opened->catalogue.checkpoints.empty())
      return report(streams, options,
                    {.kind = ErrorKind::not_found, .message = "there is no such checkpoint", .retry_after = {}});
  }
  if (options.format != OutputFormat::text) {
    streams.out << document_text(listing_json(opened->catalogue, *opened->store), options.format);
  } else if (opened->catalogue.checkpoints.empty()) {
    streams.err << "note: there are no checkpoints under " << opened->store->uri_of("") << '\n';
  } else {
    streams.out << listing_text(opened->catalogue);
  }
  return 0;
}

int show_checkpoint(const CheckpointsOptions& options, const Streams& streams) {
  const auto opened = open(options);
  if (!opened) return report(streams, opened.error());
  const auto choice = choose(opened->catalogue, opened->wish);
  if (!choice) return report(streams, options, choice.error());
  print_notes(streams, *choice);
  if (options.format != OutputFormat::text) {
    streams.out << document_text(description_json(*choice->listed, *opened->store), options.format);
  } else {
    streams.out << description_text(*choice->listed, *opened->store);
  }
  return 0;
}

int verify_checkpoints(const CheckpointsOptions& options, const Streams& streams) {
  const auto opened = open(options);
  if (!opened) return report(streams, opened.error());
  const auto ids = ids_to_verify(*opened, options.is_all);
  if (!ids) return report(streams, options, ids.error());
  int exit_code = 0;
  nlohmann::json document = nlohmann::json::array();
  for (const auto& id : *ids) {
    const auto verification = checkpoint::verify(*opened->store, opened->catalogue.inventory, id);
    if (!verification) return report(streams, options, verification.error());
    if (!verification->damages.empty()) exit_code = exit_failure;
    if (options.format != OutputFormat::text) {
      document.push_back(verification_json(id, *verification, *opened->store));
      continue;
    }
    for (const std::string& damage : verification->damages) streams.out << "damaged: " << printable(damage) << '\n';
    streams.out << fmt::format("{}: {}, {} read\n", folder_key(id), verification->damages.empty() ? "whole" : "DAMAGED",
                               human_bytes(verification->bytes));
  }
  if (options.format != OutputFormat::text) streams.out << document_text(document, options.format);
  return exit_code;
}

int get_checkpoint(const CheckpointsOptions& options, const Streams& streams) {
  const auto opened = open(options);
  if (!opened) return report(streams, opened.error());
  const auto choice = choose_readable(opened->catalogue, opened->wish);
  if (!choice) return report(streams, options, choice.error());
  print_notes(streams, *choice);
  const Listed& listed = *choice->listed;
  std::string folder = fs::absolute(options.target).lexically_normal().string();
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  const auto bytes = fetch(*opened->store, opened->catalogue.inventory, *listed.manifest, folder);
  if (!bytes) return report(streams, bytes.error());
  streams.out << fmt::format("step {}, {} of {} ranks; to resume from it, set checkpoint.uri: file://{}\n",
                             listed.id.step, human_bytes(*bytes), listed.manifest->receipts.size(), folder);
  return 0;
}

int export_checkpoint(const CheckpointsOptions& options, const Streams& streams) {
  if (!options.target.ends_with(checkpoint::safetensors_ending) && !options.target.ends_with(".pt")) {
    streams.err << "error: " << options.target << ": unknown format; end the file's name with .safetensors or .pt\n";
    return exit_usage;
  }
  const auto opened = open(options);
  if (!opened) return report(streams, opened.error());
  const auto choice = choose_readable(opened->catalogue, opened->wish);
  if (!choice) return report(streams, options, choice.error());
  print_notes(streams, *choice);
  const auto written = write_export(*opened, *choice->listed->manifest, options);
  if (!written) return report(streams, written.error());
  if (!written->empty()) {
    const checkpoint::NonFiniteTensor& first = written->front();
    streams.err << fmt::format(
        "note: numbers are infinite or NaN in {} of the exported tensors, such as {} ({} of its numbers). Masks may "
        "have such numbers; where weights have them, export an earlier step\n",
        written->size(), printable(first.name), first.count);
  }
  std::error_code ignored;
  streams.out << fmt::format("step {}: {} ({})\n", choice->listed->id.step, options.target,
                             human_bytes(fs::file_size(options.target, ignored)));
  return 0;
}

int import_checkpoint(const CheckpointsOptions& options, const Streams& streams) {
  if (!checkpoint::TensorFile::is_known(options.source)) {
    streams.err << "error: " << printable(options.source)
                << ": unknown format; the file's name must end with .safetensors, .pt, .pth or .bin\n";
    return exit_usage;
  }
  const auto imported = import_file(options);
  if (!imported) return report(streams, imported.error());
  if (!imported->left_out.empty()) {
    streams.err << fmt::format("note: left out {} tensors that belong to no model, such as {}\n",
                               imported->left_out.size(), printable(imported->left_out.front()));
  }
  streams.out << fmt::format("{} tensors, {}; to begin a training with them, set training.model.weights: {}\n",
                             imported->tensors, human_bytes(imported->bytes), options.uri);
  return 0;
}

int remove_checkpoint(const CheckpointsOptions& options, const Streams& streams, const Ask& ask) {
  const auto opened = open(options);
  if (!opened) return report(streams, opened.error());
  const auto choice = choose_to_remove(opened->catalogue, opened->wish);
  if (!choice) return report(streams, options, choice.error());
  const Listed& listed = *choice->listed;
  const auto removal = plan_removal(opened->catalogue, listed, options.is_forced);
  if (!removal) return report(streams, options, removal.error());
  if (!options.is_confirmed) {
    const auto answer = ask(question_of(listed, *opened->store));
    if (!answer) {
      streams.err << "error: cannot ask, since standard input is no terminal; add --yes to remove it\n";
      return exit_usage;
    }
    if (!*answer) {
      streams.err << "nothing was removed\n";
      return exit_failure;
    }
  }
  if (auto removed = remove_all(*opened->store, *removal); !removed) return report(streams, removed.error());
  for (const std::string& key : removal->strangers)
    streams.err << "note: " << printable(opened->store->uri_of(key))
                << " was written by no worker and is left in place\n";
  streams.out << fmt::format("removed {}: {} objects\n", opened->store->uri_of(folder_key(listed.id)),
                             removal->keys.size());
  return 0;
}

}  // namespace trainyard::cli
