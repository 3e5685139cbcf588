#pragma once

#include "operator/kube/api.hpp"

namespace trainyard::fakes {

/// An API server that refuses all calls. A test overrides the calls that it tests.
class RefusingApi : public kube::Api {
 public:
  using json = kube::json;

  Result<json> get(const kube::ResourceType&, std::string_view, std::string_view) override { return refuse(); }
  Result<kube::ListPage> list(const kube::ResourceType&, const kube::ListOptions&) override { return refuse(); }
  Result<void> watch(const kube::ResourceType&, const kube::WatchOptions&,
                     const std::function<void(const kube::WatchEvent&)>&, std::stop_token) override {
    return refuse();
  }
  Result<json> create(const kube::ResourceType&, std::string_view, const json&, const kube::CreateOptions&) override {
    return refuse();
  }
  Result<json> update(const kube::ResourceType&, std::string_view, const json&) override { return refuse(); }
  Result<json> update_status(const kube::ResourceType&, std::string_view, const json&) override { return refuse(); }
  Result<json> patch(const kube::ResourceType&, std::string_view, std::string_view, kube::PatchType,
                     const json&) override {
    return refuse();
  }
  Result<void> remove(const kube::ResourceType&, std::string_view, std::string_view,
                      const kube::DeleteOptions&) override {
    return refuse();
  }

 private:
  static tl::unexpected<Error> refuse() { return fail(ErrorKind::internal, "this fake refuses the call"); }
};

}  // namespace trainyard::fakes
