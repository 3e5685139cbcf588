#include "tests/fakes/scripted_api_server.hpp"

#include <httplib.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <nlohmann/json.hpp>

#include "common/check.hpp"

namespace trainyard::fakes {
namespace {

bool set_up(SSL_CTX& context, const Certificate& own, const std::string& client_ca_pem) {
  BIO* certificate_bio = BIO_new_mem_buf(own.certificate_pem.data(), -1);
  BIO* key_bio = BIO_new_mem_buf(own.key_pem.data(), -1);
  X509* certificate = PEM_read_bio_X509(certificate_bio, nullptr, nullptr, nullptr);
  EVP_PKEY* key = PEM_read_bio_PrivateKey(key_bio, nullptr, nullptr, nullptr);
  const bool is_good =
      SSL_CTX_use_certificate(&context, certificate) == 1 && SSL_CTX_use_PrivateKey(&context, key) == 1;
  X509_free(certificate);
  EVP_PKEY_free(key);
  BIO_free(certificate_bio);
  BIO_free(key_bio);
  if (!client_ca_pem.empty()) {
    BIO* ca_bio = BIO_new_mem_buf(client_ca_pem.data(), -1);
    X509* ca = PEM_read_bio_X509(ca_bio, nullptr, nullptr, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(&context), ca);
    X509_free(ca);
    BIO_free(ca_bio);
    SSL_CTX_set_verify(&context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return is_good;
}

std::string client_name(const SSL* ssl) {
  X509* certificate = ssl == nullptr ? nullptr : SSL_get1_peer_certificate(ssl);
  if (certificate == nullptr) return {};
  char name[64] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
  X509_free(certificate);
  return name;
}

}  // namespace

ScriptedApiServer::ScriptedApiServer(Answer answer, Options options) : answer_{std::move(answer)} {
  const Certificate own = authority_.issue("test server", options.server_name);
  server_ = std::make_unique<httplib::SSLServer>([&](SSL_CTX& context) {
    return set_up(context, own, options.is_asking_for_client_certificate ? authority_.pem() : "");
  });
  const auto handle = [this](const httplib::Request& request, httplib::Response& response) {
    {
      const std::scoped_lock lock{mutex_};
      seen_.push_back({request.method, request.target, request.body, request.get_header_value("Content-Type"),
                       request.get_header_value("Authorization"), client_name(request.ssl)});
    }
    answer_(request, response);
  };
  server_->Get(".*", handle).Post(".*", handle).Put(".*", handle).Patch(".*", handle).Delete(".*", handle);
  server_->set_tcp_nodelay(true);
  port_ = server_->bind_to_any_port("127.0.0.1");
  check(port_ > 0, "a free port on 127.0.0.1");
  thread_ = std::jthread{[this] { server_->listen_after_bind(); }};
  while (!server_->is_running()) std::this_thread::yield();
}

ScriptedApiServer::~ScriptedApiServer() {
  release();
  server_->stop();
}

kube::ClientConfig ScriptedApiServer::config() const {
  kube::ClientConfig config;
  config.host = "127.0.0.1";
  config.port = static_cast<std::uint16_t>(port_);
  config.authorities = kube::AuthoritySource::of_text(authority_.pem());
  config.token = kube::TokenSource::of_text("secret");
  return config;
}

std::vector<SeenRequest> ScriptedApiServer::seen() const {
  const std::scoped_lock lock{mutex_};
  return seen_;
}

void ScriptedApiServer::hang() {
  std::unique_lock lock{mutex_};
  released_.wait(lock, [this] { return is_released_; });
}

void ScriptedApiServer::release() {
  {
    const std::scoped_lock lock{mutex_};
    is_released_ = true;
  }
  released_.notify_all();
}

void answer_json(httplib::Response& response, const std::string& text, int status) {
  response.status = status;
  response.set_content(text, "application/json");
}

void answer_status(httplib::Response& response, int status, const std::string& reason, const std::string& message) {
  const nlohmann::json object{
      {"kind", "Status"}, {"status", "Failure"}, {"message", message}, {"reason", reason}, {"code", status}};
  answer_json(response, object.dump(), status);
}

}  // namespace trainyard::fakes
