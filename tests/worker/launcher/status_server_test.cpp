#include "worker/launcher/status_server.hpp"

#include <gtest/gtest.h>
#include <httplib.h>

#include <nlohmann/json.hpp>

#include "tests/fakes/free_port.hpp"

namespace trainyard::launcher {
namespace {

using nlohmann::json;

class StatusServerTest : public testing::Test {
 protected:
  StatusServerTest() {
    // Another program may take the port first.
    for (int tries = 0; tries < 20 && !server_; ++tries) {
      port_ = fakes::free_port();
      auto server =
          StatusServer::start({}, rank::Reach::loopback, port_, {.token = "5ecret", .has_checkpoint_uri = true}, {});
      if (server) server_ = std::move(*server);
    }
  }

  [[nodiscard]] httplib::Client client() const { return httplib::Client{"127.0.0.1", port_}; }
  [[nodiscard]] httplib::Result post(const std::string& body, const std::string& token = "5ecret") const {
    return client().Post("/checkpoint", httplib::Headers{{"Authorization", "Bearer " + token}}, body,
                         "application/json");
  }
  [[nodiscard]] json status() const { return json::parse(client().Get("/status")->body); }

  std::uint16_t port_ = 0;
  std::unique_ptr<StatusServer> server_;
};

TEST_F(StatusServerTest, TakesARequestAndShowsWhatComesOfIt) {
  ASSERT_TRUE(server_);
  server_->update({}, false);
  EXPECT_FALSE(status().contains("checkpointRequest"));
  const auto taken = post(R"({"id": "a"})");
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->status, 202);
  EXPECT_EQ(taken->get_header_value("Content-Type"), "application/json");
  EXPECT_FALSE(taken->has_header("WWW-Authenticate"));
  EXPECT_EQ(json::parse(taken->body), (json{{"id", "a"}, {"state", "Pending"}}));
  EXPECT_EQ(status().at("checkpointRequest"), (json{{"id", "a"}, {"then", "continue"}, {"state", "Pending"}}));
  EXPECT_EQ(server_->take_checkpoint_request(), (rank::CheckpointRequest{.id = "a"}));

  const rank::RequestRecord done{
      .request = {.id = "a"}, .state = contract::RequestState::done, .step = 7, .uri = "s3://m/step-7/g-1"};
  server_->update({.progress = rank::RankProgress{.phase = "Training", .checkpoint_request = done}}, false);
  EXPECT_EQ(server_->request_record(), done);
  const json shown{{"id", "a"}, {"then", "continue"}, {"state", "Done"}, {"step", 7}, {"uri", "s3://m/step-7/g-1"}};
  EXPECT_EQ(status().at("checkpointRequest"), shown);
  EXPECT_EQ(json::parse(post(R"({"id": "a"})")->body), shown);

  EXPECT_EQ(post(R"({"id": "b"})")->status, 202);
  const rank::RequestRecord failed{
      .request = {.id = "b"}, .state = contract::RequestState::failed, .message = "the disk is full"};
  server_->update({.progress = rank::RankProgress{.phase = "Done", .checkpoint_request = failed}}, true);
  EXPECT_EQ(server_->request_record(), failed) << "the last report has an outcome too";
  EXPECT_EQ(post(R"({"id": "c"})")->status, 409);
}

TEST_F(StatusServerTest, ShowsTheLastUpdate) {
  ASSERT_TRUE(server_);
  server_->update({.rank = 3, .progress = rank::RankProgress{.phase = "Training", .step = 12}}, false);
  EXPECT_EQ(status().at("phase"), "Training");
  EXPECT_EQ(status().at("step"), 12);
  EXPECT_EQ(client().Get("/status")->get_header_value("Content-Type"), "application/json");
  const auto metrics = client().Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_NE(metrics->body.find("trainyard_step{"), std::string::npos) << metrics->body;
  EXPECT_EQ(metrics->get_header_value("Content-Type"), "text/plain; version=0.0.4");
  const auto head = client().Head("/status");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->status, 200);
}

TEST_F(StatusServerTest, IsReachedOnlyFromThisMachineWhereAllRanksAreOnIt) {
  ASSERT_TRUE(server_);
  // 127.0.0.2 stands for every other address of this machine.
  EXPECT_FALSE(httplib::Client("127.0.0.2", port_).Get("/status"));
  server_.reset();
  const auto everywhere = StatusServer::start({}, rank::Reach::everywhere, port_, {}, {});
  ASSERT_TRUE(everywhere) << everywhere.error().message;
  EXPECT_TRUE(httplib::Client("127.0.0.2", port_).Get("/status"));
}

TEST_F(StatusServerTest, KeepsNoConnectionOpenFromWhichNoFurtherRequestMayCome) {
  ASSERT_TRUE(server_);
  httplib::Client patient = client();
  patient.set_keep_alive(true);
  const auto reply = patient.Get("/status");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->get_header_value("Connection"), "close") << "it would hold one of a few threads";
}

TEST_F(StatusServerTest, AsksForTheToken) {
  ASSERT_TRUE(server_);
  const httplib::Result replies[] = {post(R"({"id": "a"})", "guess"),
                                     client().Post("/checkpoint", "{}", "application/json")};
  for (const httplib::Result& reply : replies) {
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 401);
    EXPECT_EQ(reply->get_header_value("WWW-Authenticate"), "Bearer");
    EXPECT_TRUE(json::parse(reply->body).contains("error"));
  }
  EXPECT_EQ(server_->take_checkpoint_request(), std::nullopt);
}

TEST_F(StatusServerTest, KeepsNoBodyThatIsTooLong) {
  ASSERT_TRUE(server_);
  const auto reply = post(std::string(30'000, ' '));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 400);
  EXPECT_EQ(json::parse(reply->body), (json{{"error", "the body is longer than 1024 bytes"}}));

  // A chunked body, without a length in the head.
  std::size_t sent = 0;
  const auto endless = [&sent](std::size_t /*offset*/, httplib::DataSink& sink) {
    const std::string piece(4'096, ' ');
    sent += piece.size();
    return sink.write(piece.data(), piece.size());
  };
  const auto broken_off =
      client().Post("/checkpoint", httplib::Headers{{"Authorization", "Bearer 5ecret"}}, endless, "application/json");
  if (broken_off) {
    EXPECT_EQ(broken_off->status, 400);
  }
  EXPECT_LT(sent, 100'000'000U) << "only as much as the sockets hold";
}

TEST_F(StatusServerTest, RefusesFormsAndKnowsNoOtherPlaceToPostTo) {
  ASSERT_TRUE(server_);
  const httplib::MultipartFormDataItems form{{"id", "a", "", ""}};
  const auto answered = client().Post("/checkpoint", httplib::Headers{{"Authorization", "Bearer 5ecret"}}, form);
  if (answered) {
    EXPECT_EQ(answered->status, 400);  // The client may find the connection closed, because the form is not read.
  }
  const auto status_of = [](const httplib::Result& reply) { return reply ? reply->status : 0; };
  EXPECT_EQ(status_of(client().Post("/status", "{}", "application/json")), 404);
  EXPECT_EQ(status_of(client().Put("/checkpoint", "{}", "application/json")), 404);
  EXPECT_EQ(status_of(client().Get("/checkpoint")), 404);
  EXPECT_EQ(status_of(client().Get("/metrics")), 200);
}

}  // namespace
}  // namespace trainyard::launcher
