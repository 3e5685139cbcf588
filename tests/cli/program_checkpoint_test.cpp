#include <gmock/gmock.h>
#include <signal.h>

#include "cli/request_box.hpp"
#include "tests/cli/program_fixture.hpp"

namespace trainyard::cli {
namespace {

using testing::HasSubstr;
using Outcome = ProgramOutcome;

class ProgramCheckpointTest : public ProgramTest {
 protected:
  /// A training job, and a worker for it that saves each requested checkpoint at step 7.
  std::pair<std::string, std::string> saving_job() const {
    const std::string worker = folder_
                                   .write("worker", R"(#!/usr/bin/python3
import http.server, json, os
record = {}
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, code, document):
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        status = {"uid": os.environ["TRAINYARD_JOB_UID"], "attempt": int(os.environ["TRAINYARD_ATTEMPT"]), "step": 7}
        self.answer(200, status | ({"checkpointRequest": record} if record else {}))
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != "Bearer " + os.environ["TRAINYARD_REQUEST_TOKEN"]:
            return self.answer(401, {"error": "wrong token"})
        record.update(id=request["id"], state="Done", step=7, uri="file:///saved/step-7/g-1")
        self.answer(202, {"id": request["id"], "state": "Pending"})
        if request["then"] == "exit":
            message = {"reason": "Preempted", "exitCode": 91, "progress": {"step": 7, "checkpointRequest": record}}
            open(os.environ["TRAINYARD_TERMINATION_LOG"], "w").write(json.dumps(message))
            open(os.path.join(os.environ["FOLDER"], "ended-on-request"), "w").close()
            os._exit(91)
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["TRAINYARD_STATUS_PORT"])), Handler).serve_forever()
)")
                                   .string();
    std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
    const std::string job = folder_
                                .write("saving.yaml", R"(apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: saving}
spec: {gpusPerPod: 0, training: {model: {name: fashion_cnn}, data: {format: synthetic}}}
)")
                                .string();
    return {job, worker};
  }
};

TEST_F(ProgramCheckpointTest, ARunThatIsKilledSaysThatTheNextRunResumes) {
  const auto [job, worker] = saving_job();
  folder_.write("worker", "#!/bin/sh\ntrap '' TERM\ntouch $FOLDER/up\nwhile :; do sleep 0.05; done\n");
  auto group = start({"run", "--worker", worker, job});
  const pid_t pid = pid_of(group);
  ASSERT_TRUE(appears("up"));
  ::kill(pid, SIGINT);
  ASSERT_TRUE(says("Stopping"));
  ::kill(pid, SIGINT);
  EXPECT_EQ(end_of(group).exit_code, 130);
  EXPECT_THAT(out(), HasSubstr("Killed. The next run resumes from the last complete checkpoint.\n"));
}

TEST_F(ProgramCheckpointTest, CheckpointAsksARunOfThisMachineWhileItTrains) {
  const auto [job, worker] = saving_job();
  auto group = start({"run", "--worker", worker, job});
  const pid_t pid = pid_of(group);
  ASSERT_TRUE(says("step 7"));
  const Outcome asked = run({"checkpoint", "saving"});
  EXPECT_EQ(asked.exit_code, 0) << asked.err;
  EXPECT_EQ(asked.out, "step 7 saved: file:///saved/step-7/g-1\n");
  EXPECT_EQ(run({"checkpoint", "saving", "--dir", "trainyard-runs/saving"}).exit_code, 0) << "and again";
  ::kill(pid, SIGINT);
  EXPECT_EQ(end_of(group).exit_code, 130);
  EXPECT_TRUE(std::filesystem::exists(folder_.file("ended-on-request"))) << "asked before its pods were to go";
}

TEST_F(ProgramCheckpointTest, ARunTakesUpNoRequestThatWasMadeToTheRunBefore) {
  const auto [job, worker] = saving_job();
  std::filesystem::create_directories(folder_.file("trainyard-runs/saving"));
  RequestBox box{folder_.file("trainyard-runs/saving")};
  ASSERT_TRUE(box.put("of-an-earlier-run"));
  auto group = start({"run", "--worker", worker, job});
  const pid_t pid = pid_of(group);
  ASSERT_TRUE(says("step 7"));
  const Outcome asked = run({"checkpoint", "saving"});
  EXPECT_EQ(asked.exit_code, 0) << asked.err;
  EXPECT_EQ(box.next(), std::nullopt);
  EXPECT_EQ(box.take_answer("of-an-earlier-run"), std::nullopt) << "requests are taken up one after the other";
  ::kill(pid, SIGINT);
  EXPECT_EQ(end_of(group).exit_code, 130);
}

TEST_F(ProgramCheckpointTest, CheckpointSaysWhyThereIsNone) {
  auto group = start({"run", shell_job("touch $FOLDER/up; while ! [ -e $FOLDER/go ]; do sleep 0.05; done")});
  ASSERT_TRUE(appears("up"));
  const Outcome asked = run({"checkpoint", "job"});
  EXPECT_EQ(asked.exit_code, 1);
  EXPECT_EQ(asked.err, "error: no checkpoint was made: a container of your own does not take checkpoint requests\n");
  folder_.write("go", "");
  EXPECT_EQ(end_of(group).exit_code, 0);
  EXPECT_EQ(run({"checkpoint", "job", "--dir", "trainyard-runs/job"}).err,
            "error: no run is in progress in trainyard-runs/job\n");
  EXPECT_THAT(run({"checkpoint", "nobody"}).err,
              HasSubstr("no run of nobody is in progress on this machine (trainyard-runs/nobody), and no cluster to "
                        "ask: "));
}

TEST_F(ProgramCheckpointTest, ARunThatCannotReadItsRequestsSaysSoOnceAndRunsOn) {
  auto group = start({"run", shell_job("touch $FOLDER/up; while ! [ -e $FOLDER/go ]; do sleep 0.05; done")});
  ASSERT_TRUE(appears("up"));
  const std::string requests = folder_.write("trainyard-runs/job/.requests", "");
  const std::string said = "error: opening the folder " + requests + ": Not a directory";
  ASSERT_TRUE(says(said));
  folder_.write("go", "");
  const Outcome ended = end_of(group);
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.out.find(said), ended.out.rfind(said)) << ended.out;
  EXPECT_THAT(ended.out, HasSubstr("this run answers no more checkpoint requests"));
}

}  // namespace
}  // namespace trainyard::cli
