#include "storage/s3_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/text.hpp"
#include "storage/aws_credential_sources.hpp"
#include "storage/aws_profile.hpp"

namespace trainyard::storage {
namespace {

struct Endpoint {
  std::string scheme;
  std::string authority;  // host[:port]
};

Result<Endpoint> parse_endpoint(const std::string& text) {
  // The text before an '@' could hold a password, so the message does not repeat it.
  if (text.find('@') != std::string::npos) {
    return fail(ErrorKind::invalid,
                "the S3 endpoint holds a user name: write https://host:port, and the keys into the environment");
  }
  const auto refuse = [&] {
    return fail(ErrorKind::invalid, fmt::format("'{}' is not an S3 endpoint: write https://host:port", text));
  };
  Endpoint endpoint;
  for (const char* scheme : {"https", "http"}) {
    const std::string front = fmt::format("{}://", scheme);
    if (text.starts_with(front)) endpoint = {.scheme = scheme, .authority = text.substr(front.size())};
  }
  while (endpoint.authority.ends_with('/')) endpoint.authority.pop_back();
  const bool is_plain = std::all_of(endpoint.authority.begin(), endpoint.authority.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == ':' || c == '[' || c == ']' || c == '_';
  });
  if (endpoint.authority.empty() || !is_plain) return refuse();
  // Clients leave the scheme's own port out of the Host header, which is signed.
  const std::string own_port = endpoint.scheme == "https" ? ":443" : ":80";
  if (endpoint.authority.ends_with(own_port)) endpoint.authority.resize(endpoint.authority.size() - own_port.size());
  return endpoint;
}

Result<std::map<std::string, std::string>> encryption_headers(const S3Options& options) {
  std::map<std::string, std::string> headers;
  const bool has_key = options.sse == "aws:kms" || options.sse == "aws:kms:dsse";
  if (!options.sse.empty() && !has_key && options.sse != "AES256")
    return fail(ErrorKind::invalid,
                fmt::format("'{}' is no encryption of S3's: write AES256, aws:kms or aws:kms:dsse", options.sse));
  if (!options.sse_kms_key_id.empty() && !has_key)
    return fail(ErrorKind::invalid, "a KMS key is named, but not the encryption aws:kms or aws:kms:dsse");
  if (!options.sse.empty()) headers["x-amz-server-side-encryption"] = options.sse;
  if (!options.sse_kms_key_id.empty()) headers["x-amz-server-side-encryption-aws-kms-key-id"] = options.sse_kms_key_id;
  return headers;
}

bool is_of_aws(std::string_view authority) {
  const std::string_view host = authority.substr(0, authority.find(':'));
  return host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn");
}

bool is_bare_host(std::string_view authority) {
  const std::string_view host = authority.substr(0, authority.find(':'));
  const bool is_address = authority.starts_with('[') || host.find_first_not_of("0123456789.") == std::string_view::npos;
  return is_address || host.find('.') == std::string_view::npos;
}

Result<S3Checksums> read_checksums(const Environment& environment, const AwsProfile& profile) {
  std::string word = first_of(environment, {"AWS_REQUEST_CHECKSUM_CALCULATION"});
  if (word.empty()) word = profile.value("request_checksum_calculation");
  word = to_lower(word);
  if (word.empty()) return S3Checksums::automatic;
  if (word == "when_supported") return S3Checksums::required;
  if (word == "when_required") return S3Checksums::off;
  return fail(ErrorKind::invalid,
              fmt::format("AWS_REQUEST_CHECKSUM_CALCULATION is '{}': write when_supported or when_required", word));
}

bool fits_in_front_of_a_host(std::string_view bucket) {
  return std::all_of(bucket.begin(), bucket.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

}  // namespace

Result<S3Config> make_s3_config(const Uri& uri, const S3Options& options, const Environment& environment) {
  const AwsProfile profile = read_profile(environment);
  S3Config config{
      .bucket = uri.bucket,
      .prefix = uri.path,
      .region = options.region.empty() ? first_of(environment, {"AWS_REGION", "AWS_DEFAULT_REGION"}) : options.region,
      .scheme = "https",
      .host = {},
      .path_style = false,
      .credentials = nullptr,
      .ca_bundle = first_of(environment, {"AWS_CA_BUNDLE"})};
  if (config.region.empty()) config.region = profile.value("region");
  if (config.region.empty()) config.region = "us-east-1";
  config.credentials = std::make_shared<AwsCredentialChain>(aws_credential_sources(environment, config.region));
  std::string endpoint_text = options.endpoint;
  if (endpoint_text.empty()) endpoint_text = first_of(environment, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (endpoint_text.empty()) endpoint_text = profile.value("endpoint_url");
  if (endpoint_text.empty()) {
    const bool is_in_china = config.region.starts_with("cn-");
    endpoint_text = fmt::format("https://s3.{}.amazonaws.com{}", config.region, is_in_china ? ".cn" : "");
  }
  auto endpoint = parse_endpoint(endpoint_text);
  if (!endpoint) return fail(to_string(uri), endpoint.error());
  auto encryption = encryption_headers(options);
  if (!encryption) return fail(to_string(uri), encryption.error());
  config.encryption = std::move(*encryption);
  config.scheme = endpoint->scheme;
  auto checksums = read_checksums(environment, profile);
  if (!checksums) return fail(to_string(uri), checksums.error());
  config.checksums = *checksums;
  config.path_style = options.path_style.value_or(!is_of_aws(endpoint->authority)) ||
                      is_bare_host(endpoint->authority) || !fits_in_front_of_a_host(config.bucket);
  config.host = config.path_style ? endpoint->authority : fmt::format("{}.{}", config.bucket, endpoint->authority);
  return config;
}

}  // namespace trainyard::storage
