#include "storage/azure_protocol.hpp"

#include <gtest/gtest.h>

#include "common/text.hpp"
#include "common/time_text.hpp"

namespace trainyard::storage {
namespace {

// The example of https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key, "Get Container
// Metadata".
AzureSignedParts documented_request() {
  return {.method = "GET",
          .path = "/mycontainer",
          .query = {{"restype", "container"}, {"timeout", "20"}, {"comp", "metadata"}},
          .headers = {{"x-ms-version", "2015-02-21"}, {"x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT"}}};
}

TEST(AzureSignature, SignsTheTextOfTheManualsExample) {
  EXPECT_EQ(azure_string_to_sign(documented_request(), "myaccount"),
            "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n"
            "/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20");
}

TEST(AzureSignature, HoldsEveryHeaderAtItsPlace) {
  const AzureSignedParts request{.method = "PUT",
                                 .path = "/devstoreaccount1/c/a%20b",
                                 .query = {{"comp", "block"}, {"blockid", "a=="}},
                                 .headers = {{"content-md5", "md5"},
                                             {"content-type", "type"},
                                             {"if-none-match", "*"},
                                             {"range", "bytes=0-1"},
                                             {"x-ms-date", "now"}},
                                 .body_bytes = 7};
  EXPECT_EQ(azure_string_to_sign(request, "devstoreaccount1"),
            "PUT\n\n\n7\nmd5\ntype\n\n\n\n*\n\nbytes=0-1\nx-ms-date:now\n/devstoreaccount1/devstoreaccount1/c/a%20b\n"
            "blockid:a==\ncomp:block");
}

TEST(AzureSignature, IsTheHmacOfThatText) {
  const std::string key =
      decode_base64("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==").value();
  // Computed by Python's hmac module.
  EXPECT_EQ(azure_authorization(documented_request(), "myaccount", key),
            "SharedKey myaccount:1u9lui2jDxj0+fpbHjQ5m5NnastJRSYM+PSmfi8TXx4=");
}

TEST(AzureDate, IsThatOfHttp) {
  EXPECT_EQ(azure_date(parse_rfc3339("2015-06-26T23:39:12Z").value()), "Fri, 26 Jun 2015 23:39:12 GMT");
}

}  // namespace
}  // namespace trainyard::storage
