#pragma once

#include <functional>
#include <stop_token>
#include <utility>

#include "operator/kube/api.hpp"

namespace trainyard::control {

/// Passes on all reads, and a write only if `may_write` returns true for it: a leader that loses its lease while it
/// carries out a plan writes nothing more. Refused writes fail with ErrorKind::cancelled. Any thread may call, if
/// `may_write` allows it.
class WriteGate final : public kube::Api {
 public:
  using json = kube::json;

  /// `api` outlives the gate.
  WriteGate(kube::Api& api, std::function<bool()> may_write) : api_{api}, may_write_{std::move(may_write)} {}

  Result<json> get(const kube::ResourceType& type, std::string_view name_space, std::string_view name) override {
    return api_.get(type, name_space, name);
  }
  Result<kube::ListPage> list(const kube::ResourceType& type, const kube::ListOptions& options) override {
    return api_.list(type, options);
  }
  Result<void> watch(const kube::ResourceType& type, const kube::WatchOptions& options,
                     const std::function<void(const kube::WatchEvent&)>& on_event, std::stop_token stop) override {
    return api_.watch(type, options, on_event, std::move(stop));
  }
  Result<json> create(const kube::ResourceType& type, std::string_view name_space, const json& object,
                      const kube::CreateOptions& options) override {
    if (!may_write_()) return refuse();
    return api_.create(type, name_space, object, options);
  }
  Result<json> update(const kube::ResourceType& type, std::string_view name_space, const json& object) override {
    if (!may_write_()) return refuse();
    return api_.update(type, name_space, object);
  }
  Result<json> update_status(const kube::ResourceType& type, std::string_view name_space, const json& object) override {
    if (!may_write_()) return refuse();
    return api_.update_status(type, name_space, object);
  }
  Result<json> patch(const kube::ResourceType& type, std::string_view name_space, std::string_view name,
                     kube::PatchType patch_type, const json& patch) override {
    if (!may_write_()) return refuse();
    return api_.patch(type, name_space, name, patch_type, patch);
  }
  Result<void> remove(const kube::ResourceType& type, std::string_view name_space, std::string_view name,
                      const kube::DeleteOptions& options) override {
    if (!may_write_()) return refuse();
    return api_.remove(type, name_space, name, options);
  }

 private:
  static tl::unexpected<Error> refuse() {
    return fail(ErrorKind::cancelled, "not written: this process no longer leads, or stops");
  }

  kube::Api& api_;
  const std::function<bool()> may_write_;
};

}  // namespace trainyard::control
