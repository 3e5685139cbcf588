#include "storage/aws_credential_sources.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>

#include "common/file_descriptor.hpp"
#include "common/time_text.hpp"
#include "tests/fakes/fault_proxy.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/environment_table.hpp"
#include "tests/storage/loopback_server.hpp"

namespace trainyard::storage {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Variables = std::map<std::string, std::string>;

const Credentials given{"id", "hush-key", "hush-token", parse_rfc3339("2026-01-01T01:00:00Z").value()};
constexpr const char* given_as_json =
    R"({"Code": "Success", "AccessKeyId": "id", "SecretAccessKey": "hush-key", "Token": "hush-token",
        "Expiration": "2026-01-01T01:00:00Z"})";
constexpr const char* given_as_xml =
    "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>id</AccessKeyId>"
    "<SecretAccessKey>hush-key</SecretAccessKey><SessionToken>hush-token</SessionToken>"
    "<Expiration>2026-01-01T01:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
    "</AssumeRoleWithWebIdentityResponse>";

class CredentialSourcesTest : public testing::Test {
 protected:
  // The credentials that the whole chain finds; without the instance's metadata, unless the test asks for them.
  Result<Credentials> find(Variables variables) {
    variables.emplace("AWS_SHARED_CREDENTIALS_FILE", folder_.file("credentials").string());
    variables.emplace("AWS_CONFIG_FILE", folder_.file("config").string());
    variables.emplace("AWS_EC2_METADATA_DISABLED", "true");
    return AwsCredentialChain{aws_credential_sources(environment_of(std::move(variables)), "eu-west-1", tuning)}.get();
  }
  AwsCredentialTuning tuning{.patience = std::chrono::seconds{30}};
  fakes::TemporaryFolder folder_;
};

TEST_F(CredentialSourcesTest, AreLookedIntoInTheirOrder) {
  LoopbackServer server{[](const httplib::Request& request, httplib::Response& response) {
    response.set_content(request.method == "POST" ? given_as_xml : given_as_json, "text/plain");
  }};
  folder_.write("token", "hush-jwt");
  Variables variables = {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", server.url() + "/v1"}};
  EXPECT_EQ(find(variables), given);
  folder_.write("credentials", "[default]\naws_access_key_id = file\naws_secret_access_key = secret\n");
  EXPECT_EQ(find(variables), (Credentials{"file", "secret", ""}));
  variables["AWS_WEB_IDENTITY_TOKEN_FILE"] = folder_.file("token");
  variables["AWS_ROLE_ARN"] = "arn:aws:iam::1:role/r";
  variables["AWS_ENDPOINT_URL_STS"] = server.url();
  EXPECT_EQ(find(variables), given);
  variables["AWS_ACCESS_KEY_ID"] = "variable";
  variables["AWS_SECRET_ACCESS_KEY"] = "secret";
  EXPECT_EQ(find(variables), (Credentials{"variable", "secret", ""}));
  variables["AWS_SESSION_TOKEN"] = "token";
  EXPECT_EQ(find(variables), (Credentials{"variable", "secret", "token"}));
}

TEST_F(CredentialSourcesTest, SayTogetherWhatEachOfThemLacks) {
  const auto found = find({});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::unauthorized);
  EXPECT_THAT(found.error().message,
              AllOf(HasSubstr("the environment: AWS_ACCESS_KEY_ID is not set"),
                    HasSubstr("web identity: AWS_WEB_IDENTITY_TOKEN_FILE is not set"),
                    HasSubstr("the AWS tools' files: the profile 'default'"),
                    HasSubstr("the container's agent: AWS_CONTAINER_CREDENTIALS_FULL_URI is not set"),
                    HasSubstr("the instance's metadata: AWS_EC2_METADATA_DISABLED is true")));
}

TEST_F(CredentialSourcesTest, NameTheHalfOfAKeyThatIsMissing) {
  for (const auto& [set, missing] : {std::pair{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
                                     std::pair{"AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"}}) {
    const auto found = find({{set, "hush"}, {missing, ""}});
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().kind, ErrorKind::unauthorized);
    EXPECT_THAT(found.error().message, AllOf(HasSubstr(fmt::format("the environment: {} is not set, though", missing)),
                                             Not(HasSubstr("hush"))));
  }
}

TEST_F(CredentialSourcesTest, WantARoleBesideAWebIdentitysToken) {
  const auto found = find({{"AWS_WEB_IDENTITY_TOKEN_FILE", folder_.write("token", "hush")}});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error(),
            (Error{ErrorKind::unauthorized,
                   "web identity: AWS_ROLE_ARN is not set, though AWS_WEB_IDENTITY_TOKEN_FILE is", std::nullopt}));
}

TEST_F(CredentialSourcesTest, NameASessionWhereTheEnvironmentDoesNot) {
  std::string session;
  LoopbackServer sts{[&](const httplib::Request& request, httplib::Response& response) {
    session = request.get_param_value("RoleSessionName");
    response.set_content(given_as_xml, "text/xml");
  }};
  EXPECT_EQ(find({{"AWS_WEB_IDENTITY_TOKEN_FILE", folder_.write("token", "hush")},
                  {"AWS_ROLE_ARN", "arn:aws:iam::1:role/r"},
                  {"AWS_ENDPOINT_URL_STS", sts.url()}}),
            given);
  EXPECT_EQ(session, "trainyard") << "STS takes none that is empty";
}

TEST_F(CredentialSourcesTest, TakeOnTheRoleOfAWebIdentity) {
  std::vector<std::string> tokens;
  LoopbackServer sts{[&](const httplib::Request& request, httplib::Response& response) {
    tokens.push_back(request.get_param_value("WebIdentityToken"));
    EXPECT_EQ(request.get_param_value("Action"), "AssumeRoleWithWebIdentity");
    EXPECT_EQ(request.get_param_value("Version"), "2011-06-15");
    EXPECT_EQ(request.get_param_value("RoleArn"), "arn:aws:iam::1:role/r+s");
    EXPECT_EQ(request.get_param_value("RoleSessionName"), "me");
    EXPECT_EQ(request.target, "/") << "the token is in the body only";
    if (tokens.size() == 1) response.status = 500;
    response.set_content(given_as_xml, "text/xml");
  }};
  const Variables variables = {{"AWS_WEB_IDENTITY_TOKEN_FILE", folder_.write("token", "hush-1\n")},
                               {"AWS_ROLE_ARN", "arn:aws:iam::1:role/r+s"},
                               {"AWS_ROLE_SESSION_NAME", "me"},
                               {"AWS_ENDPOINT_URL_STS", sts.url() + "/"}};
  EXPECT_EQ(find(variables), given);
  folder_.write("token", "hush-2");  // As the kubelet renews it.
  EXPECT_EQ(find(variables), given);
  EXPECT_EQ(tokens, (std::vector<std::string>{"hush-1", "hush-1", "hush-2"}));
}

TEST_F(CredentialSourcesTest, SayWhyAWebIdentityIsRefusedWithoutItsToken) {
  LoopbackServer sts{[](const httplib::Request& request, httplib::Response& response) {
    response.status = 403;
    response.set_content(
        fmt::format("<ErrorResponse><Error><Code>AccessDenied</Code><Message>Not with {}</Message></Error>"
                    "</ErrorResponse>",
                    request.get_param_value("WebIdentityToken")),
        "text/xml");
  }};
  const Variables variables = {{"AWS_WEB_IDENTITY_TOKEN_FILE", folder_.write("token", "hush")},
                               {"AWS_ROLE_ARN", "arn:aws:iam::1:role/r"},
                               {"AWS_ENDPOINT_URL_STS", sts.url()}};
  tuning.patience = std::chrono::milliseconds{0};
  const auto found = find(variables);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::unavailable) << "the role may be seconds old";
  EXPECT_THAT(found.error().message, AllOf(HasSubstr("web identity: assuming the role arn:aws:iam::1:role/r at " +
                                                     sts.url() + ": it answered 403 AccessDenied (Not with ***)"),
                                           Not(HasSubstr("hush"))));
  std::filesystem::remove(folder_.file("token"));
  EXPECT_THAT(find(variables).error().message, HasSubstr("cannot be read or is empty"));
}

TEST_F(CredentialSourcesTest, AskTheContainersAgentWithItsToken) {
  std::vector<std::string> authorizations;
  LoopbackServer agent{[&](const httplib::Request& request, httplib::Response& response) {
    authorizations.push_back(request.get_header_value("Authorization"));
    EXPECT_EQ(request.target, "/v1/credentials");
    if (authorizations.size() == 1) response.status = 503;
    response.set_content(given_as_json, "application/json");
  }};
  Variables variables = {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.url() + "/v1/credentials"}};
  EXPECT_EQ(find(variables), given);
  variables["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = "hush-1";
  EXPECT_EQ(find(variables), given);
  variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = folder_.write("token", "hush-2\n");
  EXPECT_EQ(find(variables), given);
  EXPECT_EQ(authorizations, (std::vector<std::string>{"", "", "hush-1", "hush-2"}));
  folder_.write("token", "hush-1\r\nX-Other: hush-2");
  const auto found = find(variables);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, AllOf(HasSubstr("more than one line"), Not(HasSubstr("hush"))));
}

TEST(ContainerUrl, IsNeverSentItsTokenInTheOpen) {
  struct Row {
    Variables variables;
    std::optional<std::string> url;
  };
  const auto full = [](const std::string& url) { return Variables{{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url}}; };
  const Row rows[] = {
      {{{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x"}}, "http://169.254.170.2/v2/x"},
      {{{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@evil/x"}}, std::nullopt},
      {{{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x"}, {"AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://e/x"}},
       "http://169.254.170.2/v2/x"},
      {full("http://169.254.170.2/v2/x"), "http://169.254.170.2/v2/x"},
      {full("http://169.254.170.2:80?x"), "http://169.254.170.2:80?x"},
      {full("http://169.254.170.24/x"), std::nullopt},
      {full("http://127.0.0.1:81/x"), "http://127.0.0.1:81/x"},
      {full("http://127.8.0.1/x"), "http://127.8.0.1/x"},
      {full("http://localhost/x"), "http://localhost/x"},
      {full("http://[::1]:81/x"), "http://[::1]:81/x"},
      {full("http://169.254.170.23/v1/credentials"), "http://169.254.170.23/v1/credentials"},
      {full("http://[fd00:ec2::23]/v1/credentials"), "http://[fd00:ec2::23]/v1/credentials"},
      {full("https://example.com/x"), "https://example.com/x"},
      {full("http://example.com/x"), std::nullopt},
      {full("http://127.0.0.1.example.com/x"), std::nullopt},
      {full("http://127.0.0.1@example.com/x"), std::nullopt},
      {full("http://localhost:80@example.com/x"), std::nullopt},
      {full("http://localhost.example.com"), std::nullopt},
      {full("http://10.0.0.1/x"), std::nullopt},
      {full("http://"), std::nullopt},
      {full("ftp://127.0.0.1/x"), std::nullopt},
      {full("file://localhost/x"), std::nullopt},
      {full("127.0.0.1"), std::nullopt},
  };
  for (const Row& row : rows) {
    const auto url = container_url(environment_of(row.variables));
    EXPECT_EQ(url ? std::optional{*url} : std::nullopt, row.url) << row.variables.begin()->second;
    if (!url) {
      EXPECT_EQ(url.error().kind, ErrorKind::invalid);
    }
  }
  EXPECT_EQ(container_url(environment_of({})).error().kind, ErrorKind::not_found);
}

TEST_F(CredentialSourcesTest, AskTheInstancesMetadataInThreeSteps) {
  LoopbackServer metadata{[](const httplib::Request& request, httplib::Response& response) {
    const std::string folder = "/latest/meta-data/iam/security-credentials/";
    const bool has_token = request.get_header_value("X-aws-ec2-metadata-token") == "hush-session";
    if (request.method == "PUT" && request.target == "/latest/api/token") {
      EXPECT_EQ(request.get_header_value("X-aws-ec2-metadata-token-ttl-seconds"), "21600");
      response.set_content("hush-session", "text/plain");
    } else if (request.target == folder && has_token) {
      response.set_content("the-role\r\nanother\n", "text/plain");
    } else if (request.target == folder + "the-role" && has_token) {
      response.set_content(given_as_json, "application/json");
    } else {
      response.status = 401;
    }
  }};
  const Variables variables = {{"AWS_EC2_METADATA_DISABLED", "false"},
                               {"AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url() + "/"}};
  EXPECT_EQ(find(variables), given);
  EXPECT_EQ(metadata.request_count(), 3);
}

/// A port of the loopback address to which connecting waits without end: nothing takes its connections, and no more fit
/// into the queue.
class FullPort {
 public:
  FullPort() {
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listening_.get(), 0), 0);
    EXPECT_EQ(::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    for (const FileDescriptor& waiting : waiting_)
      (void)::connect(waiting.get(), reinterpret_cast<const sockaddr*>(&address), size);
  }
  [[nodiscard]] std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }

 private:
  static FileDescriptor make_socket() { return FileDescriptor{::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)}; }

  FileDescriptor listening_ = make_socket();
  std::array<FileDescriptor, 4> waiting_{make_socket(), make_socket(), make_socket(), make_socket()};
  int port_ = 0;
};

TEST_F(CredentialSourcesTest, DoNotWaitLongForMetadataOfAMachineThatHasNone) {
  const FullPort nowhere;
  tuning = {.deadline = 60s, .patience = 1ms, .metadata_connect_timeout = 50ms};
  const auto begin = std::chrono::steady_clock::now();
  const auto found =
      find({{"AWS_EC2_METADATA_DISABLED", "false"}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", nowhere.url()}});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s) << "much less than the deadline of a request";
  ASSERT_FALSE(found.has_value());
  EXPECT_THAT(found.error().message, HasSubstr("the instance's metadata"));
}

TEST_F(CredentialSourcesTest, SayWhatTheInstancesMetadataLack) {
  int status = 404;
  LoopbackServer metadata{[&](const httplib::Request& request, httplib::Response& response) {
    response.set_content("hush-session", "text/plain");
    if (request.method == "GET") response.status = status;
  }};
  const Variables variables = {{"AWS_EC2_METADATA_DISABLED", "false"},
                               {"AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url()}};
  const auto found = find(variables);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::unauthorized);
  EXPECT_THAT(found.error().message, AllOf(HasSubstr("the instance's role: it answered 404"),
                                           HasSubstr("AWS_ACCESS_KEY_ID is not set"), Not(HasSubstr("hush"))));
  // No server listens, as on a machine that is no instance. The message still names the other sources.
  tuning.patience = std::chrono::milliseconds{20};
  const std::string nowhere = [] { return LoopbackServer{[](const auto&, auto&) {}}.url(); }();
  const auto none = find({{"AWS_EC2_METADATA_DISABLED", "false"}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", nowhere}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::unauthorized) << "waiting for them is in vain";
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("no AWS credentials were found"), HasSubstr("asking " + nowhere)));
}

TEST_F(CredentialSourcesTest, SayThatTheInstanceHasNoRole) {
  LoopbackServer metadata{[](const httplib::Request& request, httplib::Response& response) {
    response.set_content(request.method == "PUT" ? "hush-session" : "", "text/plain");
  }};
  const auto found =
      find({{"AWS_EC2_METADATA_DISABLED", "false"}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url()}});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::unauthorized);
  EXPECT_THAT(found.error().message, HasSubstr("asking " + metadata.url() + ": the instance has no role"));
  EXPECT_EQ(metadata.request_count(), 2);
}

TEST_F(CredentialSourcesTest, DistinguishMetadataThatAreSwitchedOffFromASessionThatHasEnded) {
  tuning.patience = std::chrono::milliseconds{1};
  const auto with = [&](const char* method, int status) {
    LoopbackServer metadata{[&](const httplib::Request& request, httplib::Response& response) {
      response.set_content("hush-session", "text/plain");
      if (request.method == method) response.status = status;
    }};
    return find({{"AWS_EC2_METADATA_DISABLED", "false"}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.url()}})
        .error();
  };
  const Error off = with("PUT", 403);
  EXPECT_EQ(off.kind, ErrorKind::unauthorized);
  EXPECT_THAT(off.message, HasSubstr("it is switched off"));
  const Error over = with("GET", 401);
  EXPECT_EQ(over.kind, ErrorKind::unavailable) << "a new session may be begun";
  EXPECT_THAT(over.message, HasSubstr("it answered 401"));
}

TEST_F(CredentialSourcesTest, RepeatNoPathOfTheContainersAgent) {
  LoopbackServer agent{[](const httplib::Request&, httplib::Response& response) { response.status = 404; }};
  const auto found = find({{"AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.url() + "/v1/hush?hush"}});
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message,
              AllOf(HasSubstr("asking " + agent.url() + ": it answered 404"), Not(HasSubstr("hush"))));
}

/// Each of the three services, behind a proxy with a fault.
class CredentialServicesTest : public CredentialSourcesTest {
 protected:
  struct Service {
    std::string name;
    Variables variables;
  };
  std::vector<Service> services_at(std::uint16_t port) {
    const std::string url = fmt::format("http://127.0.0.1:{}", port);
    return {{"web identity",
             {{"AWS_WEB_IDENTITY_TOKEN_FILE", folder_.write("token", "hush")},
              {"AWS_ROLE_ARN", "arn:aws:iam::1:role/r"},
              {"AWS_ENDPOINT_URL_STS", url}}},
            {"the container's agent", {{"AWS_CONTAINER_CREDENTIALS_FULL_URI", url + "/v1"}}},
            {"the instance's metadata",
             {{"AWS_EC2_METADATA_DISABLED", "false"}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT", url}}}};
  }
  LoopbackServer server_{[](const httplib::Request& request, httplib::Response& response) {
    const bool is_role = request.target.ends_with("/security-credentials/");
    response.set_content(request.method == "POST"  ? given_as_xml
                         : request.method == "PUT" ? "hush-session"
                         : is_role                 ? "the-role"
                                                   : given_as_json,
                         "text/plain");
  }};
};

TEST_F(CredentialServicesTest, AreAskedAgainAfterWhatPasses) {
  using fakes::Fault;
  const std::pair<const char*, Fault> rows[] = {
      {"429", {Fault::Kind::reply, fakes::http_reply(429, "Retry-After: 0\r\n", ""), 0}},
      {"500", {Fault::Kind::reply, fakes::http_reply(500, "", ""), 0}},
      {"503", {Fault::Kind::reply, fakes::http_reply(503, "", ""), 0}},
      {"half a reply", {Fault::Kind::half_reply, "", 0}},
      {"silence", {Fault::Kind::stall, "", 0}},
  };
  // Short, but long enough for a retry.
  tuning.deadline = std::chrono::milliseconds{500};
  for (const auto& [name, fault] : rows) {
    for (std::size_t i = 0; i < services_at(0).size(); ++i) {
      fakes::FaultProxy proxy{static_cast<std::uint16_t>(server_.port()),
                              [&fault = fault](const auto& request) { return request.number == 1 ? fault : Fault{}; }};
      const Service service = services_at(proxy.port())[i];
      EXPECT_EQ(find(service.variables), given) << name << " of " << service.name;
      EXPECT_GE(proxy.request_count(), 2) << name << " of " << service.name;
    }
  }
}

TEST_F(CredentialServicesTest, ThatKeepFailingAreUnavailableAndThatRefuseAreNot) {
  using fakes::Fault;
  struct Row {
    int status;
    bool may_pass;
  };
  tuning.patience = std::chrono::milliseconds{20};
  for (const Row& row : {Row{429, true}, {500, true}, {503, true}, {403, true}, {400, false}, {404, false}}) {
    for (std::size_t i = 0; i < services_at(0).size(); ++i) {
      fakes::FaultProxy proxy{static_cast<std::uint16_t>(server_.port()), [&](const auto& request) {
                                // Metadata that refuse a session are switched off, so the request for the role is
                                // refused instead.
                                if (request.method == "PUT") return Fault{};
                                return Fault{Fault::Kind::reply, fakes::http_reply(row.status, "", ""), 0};
                              }};
      const Service service = services_at(proxy.port())[i];
      const auto found = find(service.variables);
      ASSERT_FALSE(found);
      EXPECT_EQ(is_transient(found.error().kind), row.may_pass) << row.status << " of " << service.name;
      if (!row.may_pass) {
        EXPECT_EQ(found.error().kind, ErrorKind::unauthorized) << row.status << " of " << service.name;
      }
      EXPECT_THAT(found.error().message, HasSubstr(fmt::format("it answered {}", row.status)));
    }
  }
}

TEST_F(CredentialServicesTest, MetadataThatGiveNoSessionForNowAreUnavailable) {
  tuning.patience = std::chrono::milliseconds{20};
  fakes::FaultProxy busy{static_cast<std::uint16_t>(server_.port()), [](const auto& /*request*/) {
                           return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(503, "", ""), 0};
                         }};
  const auto found = find(services_at(busy.port()).back().variables);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(found.error().message, HasSubstr("it answered 503"));
}

TEST_F(CredentialServicesTest, ThatAreSilentAreUnavailable) {
  tuning.deadline = std::chrono::milliseconds{30};
  tuning.patience = std::chrono::milliseconds{30};
  fakes::FaultProxy silent{static_cast<std::uint16_t>(server_.port()), [](const auto&) {
                             return fakes::Fault{fakes::Fault::Kind::stall, "", 0};
                           }};
  for (const Service& service : services_at(silent.port())) {
    const auto found = find(service.variables);
    ASSERT_FALSE(found);
    EXPECT_TRUE(is_transient(found.error().kind)) << service.name << ": " << found.error().message;
  }
}

TEST(MetadataUrl, IsTheOneThatTheSdksAsk) {
  EXPECT_EQ(metadata_url(environment_of({})), "http://169.254.169.254");
  EXPECT_EQ(metadata_url(environment_of({{"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6"}})),
            "http://[fd00:ec2::254]");
  EXPECT_EQ(metadata_url(environment_of({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://a:1/"}})), "http://a:1");
  EXPECT_EQ(metadata_url(environment_of({{"AWS_EC2_METADATA_DISABLED", "True"}})).error().kind, ErrorKind::not_found);
}

TEST(StsUrl, IsTheRegionsUnlessAnotherIsSet) {
  EXPECT_EQ(sts_url(environment_of({}), "eu-west-1"), "https://sts.eu-west-1.amazonaws.com");
  EXPECT_EQ(sts_url(environment_of({}), "cn-north-1"), "https://sts.cn-north-1.amazonaws.com.cn");
  EXPECT_EQ(sts_url(environment_of({{"AWS_ENDPOINT_URL", "http://a:1/"}}), "x"), "http://a:1");
  EXPECT_EQ(sts_url(environment_of({{"AWS_ENDPOINT_URL_STS", "http://b:2"}, {"AWS_ENDPOINT_URL", "http://a:1"}}), "x"),
            "http://b:2");
}

}  // namespace
}  // namespace trainyard::storage
