#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "operator/kube/credentials.hpp"
#include "tests/fakes/certificate_authority.hpp"

namespace httplib {
struct Request;
struct Response;
class SSLServer;
}  // namespace httplib

namespace trainyard::fakes {

struct SeenRequest {
  std::string method;
  std::string target;  ///< As received, encoded.
  std::string body;
  std::string content_type;
  std::string authorization;
  std::string client_name;  ///< The client certificate's common name.
};

/// An HTTPS server on a free port of 127.0.0.1 that answers every request as the test says.
class ScriptedApiServer {
 public:
  using Answer = std::function<void(const httplib::Request&, httplib::Response&)>;
  struct Options {
    std::string server_name = "IP:127.0.0.1";  ///< The name in its certificate.
    bool is_asking_for_client_certificate = false;
  };

  explicit ScriptedApiServer(Answer answer) : ScriptedApiServer{std::move(answer), Options{}} {}
  ScriptedApiServer(Answer answer, Options options);
  ~ScriptedApiServer();
  ScriptedApiServer(const ScriptedApiServer&) = delete;
  ScriptedApiServer& operator=(const ScriptedApiServer&) = delete;

  [[nodiscard]] const CertificateAuthority& authority() const { return authority_; }
  [[nodiscard]] int port() const { return port_; }
  /// The configuration of a client that trusts this server and has the token "secret".
  [[nodiscard]] kube::ClientConfig config() const;
  [[nodiscard]] std::vector<SeenRequest> seen() const;

  /// Blocks an answer until release() or the server's end.
  void hang();
  void release();

 private:
  CertificateAuthority authority_{"test authority"};
  Answer answer_;
  mutable std::mutex mutex_;  // guards seen_ and is_released_
  std::vector<SeenRequest> seen_;
  bool is_released_ = false;
  std::condition_variable released_;
  std::unique_ptr<httplib::SSLServer> server_;
  int port_ = 0;
  std::jthread thread_;
};

/// Answers with a JSON text.
void answer_json(httplib::Response& response, const std::string& text, int status = 200);
/// Answers with a Status object, as an API server refuses.
void answer_status(httplib::Response& response, int status, const std::string& reason, const std::string& message);

}  // namespace trainyard::fakes
