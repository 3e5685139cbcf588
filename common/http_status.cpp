#include "common/http_status.hpp"

namespace trainyard {

ErrorKind kind_of_http_status(long status) {
  switch (status) {
    case 401:
      return ErrorKind::unauthorized;
    case 403:
      return ErrorKind::forbidden;
    case 404:
      return ErrorKind::not_found;
    case 408:
    case 504:
      return ErrorKind::timeout;
    case 409:
      return ErrorKind::conflict;
    case 410:
      return ErrorKind::gone;
    case 429:
      return ErrorKind::throttled;
    default:
      break;
  }
  return status >= 500 ? ErrorKind::unavailable : ErrorKind::invalid;
}

}  // namespace trainyard
