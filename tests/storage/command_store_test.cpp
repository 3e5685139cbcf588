#include "storage/command_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <stop_token>
#include <thread>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

// A program that copies to and from the folder "remote" beside it.
constexpr const char* whole_program = R"sh(#!/bin/sh
remote="$(dirname "$0")/remote"
case "$1" in
  capabilities) echo get list remove ;;
  put) mkdir -p "$(dirname "$remote/$3")" && cp "$2" "$remote/$3" ;;
  get) [ -e "$remote/$3" ] || exit 3; cp "$remote/$3" "$2" ;;
  list) mkdir -p "$remote"; cd "$remote" && find . -type f -printf '%s %P\n' ;;
  remove) rm -f "$remote/$3" ;;
esac
)sh";

// A program that only copies the file it is given, and knows no other operation.
constexpr const char* simple_program = R"sh(#!/bin/sh
[ "$1" = put ] || { echo "what is $1?" >&2; exit 2; }
remote="$(dirname "$0")/remote"
mkdir -p "$(dirname "$remote/$3")" && cp "$2" "$remote/$3"
)sh";

class CommandStoreTest : public testing::Test {
 protected:
  CommandStore open(const std::string& program) {
    const auto path = tools_.write("program", program);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return {parse_uri("command:" + path.string() + "?folder=" + local_.path() + "/run").value(), tuning};
  }
  [[nodiscard]] std::string remote(const std::string& key) const {
    return fakes::text_of(tools_.file("remote/" + key));
  }

  CommandTuning tuning{.backoff = {.initial = 1ms, .max = 5ms}};
  fakes::TemporaryFolder tools_;
  fakes::TemporaryFolder local_;
};

TEST_F(CommandStoreTest, KeepsToTheContractOfStoresButForConditionalCreate) {
  for (const char* program : {whole_program, simple_program}) {
    const auto fresh = [&] {
      std::filesystem::remove_all(tools_.file("remote"));
      std::filesystem::remove_all(local_.file("run"));
      return open(program);
    };
    CommandStore a = fresh();
    contract::gives_back_what_was_put(a);
    CommandStore b = fresh();
    contract::says_what_is_not_there(b);
    CommandStore c = fresh();
    contract::reports_an_object_that_ends_too_early(c);
    CommandStore d = fresh();
    contract::lists_by_prefix_in_order(d);
    CommandStore e = fresh();
    contract::refuses_keys_that_lead_elsewhere(e);
    EXPECT_TRUE(e.probe());
  }
}

TEST_F(CommandStoreTest, GivesTheProgramEachFileOnceItIsWhole) {
  CommandStore store = open(simple_program);
  ASSERT_TRUE(put_text(store, "step-1/g-1/data", "content"));
  EXPECT_EQ(remote("step-1/g-1/data"), "content");
  EXPECT_EQ(fakes::text_of(local_.file("run/step-1/g-1/data")), "content");
}

TEST_F(CommandStoreTest, GetsFromTheProgramWhatTheFolderHasLost) {
  CommandStore store = open(whole_program);
  ASSERT_TRUE(put_text(store, "a/b", "content"));
  std::filesystem::remove_all(local_.file("run"));  // This store is as on another node, whose folder is empty.
  EXPECT_EQ(store.list(""), (std::vector<ObjectInfo>{{"a/b", 7}}));
  std::string part(3, '-');
  ASSERT_TRUE(store.get_range("a/b", 1, std::as_writable_bytes(std::span{part})));
  EXPECT_EQ(part, "ont");
  EXPECT_EQ(get_text(store, "a/b"), "content");
  std::filesystem::remove_all(tools_.file("remote"));
  EXPECT_EQ(get_text(store, "a/b").error().kind, ErrorKind::not_found) << "the program decides";
}

TEST_F(CommandStoreTest, TriesAgainAndThenReportsTheProgramsLastLinesAndLosesNothing) {
  const std::string fails_twice = R"sh(#!/bin/sh
[ "$1" = put ] || exit 2
echo x >> "$(dirname "$0")/tries"
[ "$(wc -l < "$(dirname "$0")/tries")" -ge 3 ] || { echo "link is down" >&2; exit 1; }
)sh";
  CommandStore store = open(fails_twice);
  EXPECT_TRUE(put_text(store, "a", "x"));
  EXPECT_EQ(fakes::text_of(tools_.file("tries")), "x\nx\nx\n");

  std::filesystem::remove(tools_.file("tries"));
  tuning.tries_max = 2;
  CommandStore impatient = open(fails_twice);
  const auto put = put_text(impatient, "b", "y");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(put.error().message, AllOf(HasSubstr("put 'b'"), HasSubstr("exit code 1: link is down")));
  EXPECT_EQ(fakes::text_of(tools_.file("tries")), "x\nx\n");
  EXPECT_EQ(fakes::text_of(local_.file("run/b")), "y");
}

TEST_F(CommandStoreTest, RepeatsNoSignatureOfTheProgram) {
  tuning.tries_max = 1;
  CommandStore store = open("#!/bin/sh\necho 'refused: ?sv=1&sig=c2VjcmV0&se=2.' >&2; exit 1\n");
  const auto put = put_text(store, "a", "x");
  ASSERT_FALSE(put);
  EXPECT_THAT(put.error().message, testing::EndsWith("exit code 1: refused: ?sv=1&sig=***&se=2"));
}

TEST_F(CommandStoreTest, TakesNoWordOfARefusalForACapability) {
  const std::string prints_its_usage = R"sh(#!/bin/sh
[ "$1" = put ] || { echo "usage: program put PATH KEY; cannot get, list or remove"; exit 2; }
)sh";
  CommandStore store = open(prints_its_usage);
  ASSERT_TRUE(put_text(store, "a", "x"));
  EXPECT_EQ(get_text(store, "a"), "x") << "out of the folder";
  EXPECT_TRUE(store.remove("a"));
}

TEST_F(CommandStoreTest, TakesExitCode3ForAbsenceOnlyOfWhatIsReadOrRemoved) {
  tuning.tries_max = 1;
  CommandStore store = open(R"sh(#!/bin/sh
[ "$1" = capabilities ] && { echo get list remove; exit 0; }
exit 3
)sh");
  EXPECT_EQ(get_text(store, "a").error().kind, ErrorKind::not_found);
  EXPECT_TRUE(store.remove("a")) << "it is gone already";
  const Error put = put_text(store, "a", "x").error();
  EXPECT_EQ(put.kind, ErrorKind::unavailable);
  EXPECT_THAT(put.message, testing::EndsWith("exit code 3")) << "the program says nothing";
  EXPECT_EQ(store.list("").error().kind, ErrorKind::unavailable);
}

TEST_F(CommandStoreTest, LeavesNothingOfAGetThatFails) {
  tuning.tries_max = 1;
  CommandStore store = open(R"sh(#!/bin/sh
case "$1" in
  capabilities) echo get ;;
  get) echo half > "$2"; exit 1 ;;
esac
)sh");
  EXPECT_EQ(get_text(store, "a/b").error().kind, ErrorKind::unavailable);
  EXPECT_TRUE(std::filesystem::is_empty(local_.file("run/a")));
}

TEST_F(CommandStoreTest, KeepsWhatItGetsForItsOwnerAlone) {
  CommandStore store = open(whole_program);
  ASSERT_TRUE(put_text(store, "a", "content"));
  std::filesystem::remove_all(local_.file("run"));
  std::filesystem::permissions(tools_.file("remote/a"), static_cast<std::filesystem::perms>(0644));
  ASSERT_EQ(get_text(store, "a"), "content");
  EXPECT_EQ(std::filesystem::status(local_.file("run/a")).permissions(), static_cast<std::filesystem::perms>(0600));
}

TEST_F(CommandStoreTest, AsksForTheProgramsCapabilitiesOnce) {
  CommandStore store = open(R"sh(#!/bin/sh
[ "$1" = capabilities ] && echo x >> "$(dirname "$0")/asked"
exit 0
)sh");
  ASSERT_TRUE(store.probe());
  ASSERT_TRUE(put_text(store, "a", "x"));
  EXPECT_EQ(get_text(store, "a"), "x");
  EXPECT_TRUE(store.list("").has_value());
  EXPECT_TRUE(store.remove("a"));
  EXPECT_EQ(fakes::text_of(tools_.file("asked")), "x\n");
}

TEST_F(CommandStoreTest, AsksAgainForTheCapabilitiesOfAProgramThatASignalHasEnded) {
  CommandStore store = open(R"sh(#!/bin/sh
if [ "$1" = capabilities ]; then
  [ -e "$(dirname "$0")/asked" ] || { touch "$(dirname "$0")/asked"; kill -9 $$; }
  echo list
  exit 0
fi
[ "$1" = list ] && echo "3 a"
exit 0
)sh");
  const auto probed = store.probe();
  ASSERT_FALSE(probed);
  EXPECT_EQ(probed.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(probed.error().message, HasSubstr("asking for its capabilities: "));
  EXPECT_THAT(probed.error().message, HasSubstr("ended with exit code 137"));
  const auto listed = store.list("");
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ(listed->size(), 1U);
}

TEST_F(CommandStoreTest, TakesAProgramThatFailsForOneWithoutCapabilities) {
  CommandStore store = open("#!/bin/sh\n[ \"$1\" = put ] && exit 0\nexit 255\n");  // As Perl's die does.
  ASSERT_TRUE(store.probe());
  ASSERT_TRUE(put_text(store, "a", "x"));
  EXPECT_EQ(get_text(store, "a"), "x");
}

TEST_F(CommandStoreTest, RemovesFromTheFolderWhatTheProgramHasRemoved) {
  CommandStore store = open(whole_program);
  ASSERT_TRUE(put_text(store, "a/b", "content"));
  ASSERT_TRUE(store.remove("a/b"));
  EXPECT_FALSE(std::filesystem::exists(local_.file("run/a")));
  EXPECT_FALSE(std::filesystem::exists(tools_.file("remote/a/b")));
}

TEST_F(CommandStoreTest, EndsAProgramThatHangs) {
  tuning.deadline = 100ms;
  tuning.tries_max = 2;
  CommandStore store = open("#!/bin/sh\n[ \"$1\" = put ] && sleep 1000\nexit 0\n");
  const auto put = put_text(store, "a", "x");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::timeout);
}

TEST_F(CommandStoreTest, ARemovalIsGivenUpOnceAStopIsRequested) {
  CommandStore store = open(R"sh(#!/bin/sh
[ "$1" = capabilities ] && { echo remove; exit 0; }
[ "$1" = put ] || sleep 600
)sh");
  ASSERT_TRUE(put_text(store, "a", "x"));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(store.remove("a", stop.get_token()).error().kind, ErrorKind::cancelled);
  EXPECT_EQ(get_text(store, "a"), "x");
}

TEST_F(CommandStoreTest, ARemovalThatFailedIsNotTriedAgainOnceAStopIsRequested) {
  tuning.backoff = {.initial = 10min, .max = 10min};
  CommandStore store = open(R"sh(#!/bin/sh
[ "$1" = capabilities ] && { echo remove; exit 0; }
[ "$1" = put ] || { ln -s /proc/$$ "$(dirname "$0")/process"; echo "link is down" >&2; exit 1; }
)sh");
  ASSERT_TRUE(put_text(store, "a", "x"));
  std::stop_source stop;
  // The store now waits ten minutes before its next try.
  const std::jthread stopper{[&](const std::stop_token& is_test_over) {
    const std::string process = tools_.file("process");
    const auto has_ended = [&] { return std::filesystem::is_symlink(process) && !std::filesystem::exists(process); };
    while (!has_ended() && !is_test_over.stop_requested()) std::this_thread::yield();
    stop.request_stop();
  }};
  const auto removed = store.remove("a", stop.get_token());
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().kind, ErrorKind::cancelled);
  EXPECT_THAT(removed.error().message, HasSubstr("link is down"));
}

TEST_F(CommandStoreTest, SaysAtTheProbeThatThereIsNoProgram) {
  CommandStore store{parse_uri("command:/no/such/program?folder=" + local_.path()).value(), tuning};
  const auto probed = store.probe();
  ASSERT_FALSE(probed);
  EXPECT_EQ(probed.error().kind, ErrorKind::invalid);
  EXPECT_THAT(probed.error().message, HasSubstr("running /no/such/program"));
}

TEST_F(CommandStoreTest, HasOneWriterAtATime) {
  CommandStore store = open(whole_program);
  EXPECT_FALSE(store.has_conditional_create());
  const auto put = put_text(store, "a", "x", {.if_absent = true});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::invalid);
  EXPECT_THAT(put.error().message, HasSubstr("/run has no conditional create"));
  EXPECT_FALSE(std::filesystem::exists(tools_.file("remote/a")));
}

TEST_F(CommandStoreTest, AsksTheProgramOnceForAnObjectThatTheFolderLacksAndNeverForOneThatItHas) {
  CommandStore store = open(R"sh(#!/bin/sh
[ "$1" = capabilities ] && { echo get; exit 0; }
[ "$1" = get ] || exit 0
echo "$3" >> "$(dirname "$0")/gets"
exit 3
)sh");
  ASSERT_TRUE(put_text(store, "here", "content"));
  std::vector<std::byte> some(7);
  EXPECT_TRUE(store.get_range("here", 0, some));
  EXPECT_EQ(store.get_range("here", 1, some).error().kind, ErrorKind::corrupt) << "it ends too early";
  EXPECT_EQ(store.get_range("away", 0, some).error().kind, ErrorKind::not_found);
  EXPECT_EQ(fakes::text_of(tools_.file("gets")), "away\n");
}

TEST_F(CommandStoreTest, RefusesAListThatIsNone) {
  CommandStore store = open("#!/bin/sh\n[ \"$1\" = capabilities ] && echo list || echo 'total 0'\n");
  EXPECT_EQ(store.list("").error().kind, ErrorKind::invalid);
}

TEST(ParseListing, ReadsLinesOfBytesAndKey) {
  EXPECT_EQ(parse_listing("12 b\n\n0 a c\n3 d"), (std::vector<ObjectInfo>{{"a c", 0}, {"b", 12}, {"d", 3}}));
  for (const char* text : {"b 12", "12", "12 ", "-1 b", "12\tb", " b"}) EXPECT_FALSE(parse_listing(text)) << text;
}

}  // namespace
}  // namespace trainyard::storage
