#include "operator/resource/service.hpp"

namespace trainyard::resource {

Result<Service> parse_service(const nlohmann::json& object) {
  return api::parse_metadata(object).map([](api::Metadata metadata) { return Service{std::move(metadata)}; });
}

}  // namespace trainyard::resource
