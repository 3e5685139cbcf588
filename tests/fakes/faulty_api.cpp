#include "tests/fakes/faulty_api.hpp"

#include <type_traits>
#include <utility>

namespace trainyard::fakes {
namespace {

const Error killed{.kind = ErrorKind::cancelled, .message = "the caller was killed"};

std::string name_of(const json& object) {
  return object.value("/metadata/name"_json_pointer, "");
}

std::string uid_of(const json& object) {
  return object.value("/metadata/uid"_json_pointer, "");
}

}  // namespace

void FaultyApi::set_schedule(Schedule schedule) {
  const std::scoped_lock lock{mutex_};
  schedule_ = std::move(schedule);
}

void FaultyApi::revive() {
  const std::scoped_lock lock{mutex_};
  is_dead_ = false;
}

bool FaultyApi::is_dead() const {
  const std::scoped_lock lock{mutex_};
  return is_dead_;
}

std::int64_t FaultyApi::calls() const {
  const std::scoped_lock lock{mutex_};
  return calls_;
}

std::vector<ApiCall> FaultyApi::done() const {
  const std::scoped_lock lock{mutex_};
  return done_;
}

std::vector<ApiCall> FaultyApi::invalid() const {
  const std::scoped_lock lock{mutex_};
  return invalid_;
}

std::optional<Fault> FaultyApi::begin(ApiCall& call) {
  const std::scoped_lock lock{mutex_};
  if (is_dead_) return Fault{.kind = Fault::Kind::refused, .error = killed};
  call.number = ++calls_;
  auto fault = schedule_ ? schedule_(call) : std::nullopt;
  if (fault && (fault->kind == Fault::Kind::dies_before || fault->kind == Fault::Kind::dies_after)) {
    is_dead_ = true;
    fault->error = killed;
  }
  return fault;
}

template <typename T>
void FaultyApi::note(ApiCall call, const Result<T>& reply) {
  if constexpr (std::is_same_v<T, json>) {
    if (reply) call.uid = uid_of(*reply);
  }
  const std::scoped_lock lock{mutex_};
  if (!reply && reply.error().kind == ErrorKind::invalid) invalid_.push_back(call);
  if (reply && !call.is_dry_run) done_.push_back(std::move(call));
}

template <typename T, typename Send>
Result<T> FaultyApi::pass(ApiCall call, Send send) {
  const auto fault = begin(call);
  if (fault && (fault->kind == Fault::Kind::refused || fault->kind == Fault::Kind::dies_before)) {
    return tl::unexpected(fault->error);
  }
  const bool is_delayed = fault && fault->kind == Fault::Kind::delayed;
  if (is_delayed) fault->gate->pass();
  Result<T> reply = send();
  note(std::move(call), reply);
  if (fault && !is_delayed) return tl::unexpected(fault->error);
  return reply;
}

Result<json> FaultyApi::get(const kube::ResourceType& type, std::string_view name_space, std::string_view name) {
  return pass<json>({.verb = "get",
                     .plural = std::string{type.plural},
                     .name = std::string{name},
                     .name_space = std::string{name_space}},
                    [&] { return api_.get(type, name_space, name); });
}

Result<kube::ListPage> FaultyApi::list(const kube::ResourceType& type, const kube::ListOptions& options) {
  return pass<kube::ListPage>({.verb = "list", .plural = std::string{type.plural}},
                              [&] { return api_.list(type, options); });
}

Result<void> FaultyApi::watch(const kube::ResourceType& type, const kube::WatchOptions& options,
                              const std::function<void(const kube::WatchEvent&)>& on_event, std::stop_token stop) {
  return api_.watch(type, options, on_event, std::move(stop));
}

Result<json> FaultyApi::create(const kube::ResourceType& type, std::string_view name_space, const json& object,
                               const kube::CreateOptions& options) {
  return pass<json>({.verb = "create",
                     .plural = std::string{type.plural},
                     .name = name_of(object),
                     .name_space = std::string{name_space},
                     .is_dry_run = options.is_dry_run,
                     .is_strict = options.is_strict},
                    [&] { return api_.create(type, name_space, object, options); });
}

Result<json> FaultyApi::update(const kube::ResourceType& type, std::string_view name_space, const json& object) {
  return pass<json>({.verb = "update",
                     .plural = std::string{type.plural},
                     .name = name_of(object),
                     .name_space = std::string{name_space}},
                    [&] { return api_.update(type, name_space, object); });
}

Result<json> FaultyApi::update_status(const kube::ResourceType& type, std::string_view name_space, const json& object) {
  return pass<json>({.verb = "update status",
                     .plural = std::string{type.plural},
                     .name = name_of(object),
                     .name_space = std::string{name_space}},
                    [&] { return api_.update_status(type, name_space, object); });
}

Result<json> FaultyApi::patch(const kube::ResourceType& type, std::string_view name_space, std::string_view name,
                              kube::PatchType patch_type, const json& patch) {
  return pass<json>({.verb = "patch",
                     .plural = std::string{type.plural},
                     .name = std::string{name},
                     .name_space = std::string{name_space}},
                    [&] { return api_.patch(type, name_space, name, patch_type, patch); });
}

Result<void> FaultyApi::remove(const kube::ResourceType& type, std::string_view name_space, std::string_view name,
                               const kube::DeleteOptions& options) {
  const auto present = api_.get(type, name_space, name);
  return pass<void>({.verb = "delete",
                     .plural = std::string{type.plural},
                     .name = std::string{name},
                     .name_space = std::string{name_space},
                     .uid = present ? uid_of(*present) : std::string{}},
                    [&] { return api_.remove(type, name_space, name, options); });
}

}  // namespace trainyard::fakes
