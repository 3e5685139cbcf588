#include "local/log_files.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace trainyard::local {
namespace {

TEST(LastWords, SayWhyAProgramFailed) {
  const std::vector<std::tuple<std::string, std::string, std::string>> cases{
      {"nothing", "", ""},
      {"blank lines alone", "\n  \n\r\n", ""},
      {"one line", "no such file\n", "no such file"},
      {"the last three lines", "one\ntwo\n\nthree\n  four\n", "two | three | four"},
      {"a line without its end", "one\ntwo", "one | two"},
      {"the last form of a progress bar", "10%\r20%\r30%\nkilled\n", "30% | killed"},
      {"line ends of Windows", "one\r\ntwo\r\n", "one | two"},
      {"no colours", "\x1b[1;31merror:\x1b[0m no \x1b]0;title\x07luck\x1b(B\n", "error: no luck"},
      {"no escape sequence that is cut off", "bad \x1b[31", "bad"},
      {"no escape sequence of any length",
       "a\x1b[Kb\x1b[@c\x1b[~d\x1b]2;t\x1b\\e\x1b]f\x1b g\nh\x1b\n\x1b\nthe \x1b M\x1b/Aend\n", "abcde | h | the end"},
      {"no title that is cut off", "bad \x1b]0;tit", "bad"},
      {"no control characters", "a\x01\tb\x7f\n", "a b"},
      {"other characters as they are", "größer als 3 µs\n", "größer als 3 µs"},
      {"bytes that are no characters marked", "caf\xe9 \xff\n", "caf? ?"},
      {"the exception of a traceback",
       "loading\nTraceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    main()\n"
       "ValueError: batch 3 is empty\n",
       "ValueError: batch 3 is empty"},
      {"the last one of a chain",
       "Traceback (most recent call last):\n  File \"a\"\nKeyError: 'x'\n\nDuring handling of the above exception, "
       "another "
       "exception occurred:\n\nTraceback (most recent call last):\n  File \"b\"\nRuntimeError: no x\n",
       "RuntimeError: no x"},
      {"the first line of its message",
       "Traceback (most recent call last):\n  File \"a\"\nRuntimeError: sizes differ:\nleft 3\nright 4\n",
       "RuntimeError: sizes differ:"},
      {"as torch.distributed prints it, before its warnings",
       "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"a\"\n[rank1]: ValueError: bad\n"
       "[rank1]:[W1123 process_group.cpp:5] Warning: destroy_process_group() was not called\n",
       "ValueError: bad"},
      {"not that of a traceback after which the program went on",
       "Traceback (most recent call last):\n  File \"a\"\nKeyError: 'x'\n1\n2\n3\n4\n5\nout of disk\n",
       "4 | 5 | out of disk"},
      {"as if its program ended there, before five lines",
       "Traceback (most recent call last):\n  File \"a\"\nKeyError: 'x'\n1\n2\n3\n4\n5\n", "KeyError: 'x'"},
      {"what only begins like a rank's line", "[rank1 of 2]: a\n[rank]: Traceback (most recent call last):\nb\n",
       "[rank1 of 2]: a | [rank]: Traceback (most recent call last): | b"},
      {"a traceback that is cut off", "Traceback (most recent call last):\n  File \"a\"\n",
       "Traceback (most recent call last): | File \"a\""},
  };
  for (const auto& [sentence, log, words] : cases) EXPECT_EQ(last_words(log), words) << sentence;
}

TEST(LastWords, AreBoundedAtTheirBegin) {
  std::string log;
  for (int line = 0; line < 10'000; ++line) log += "a line that nobody reads any more\n";
  EXPECT_EQ(last_words(log + "done for\n"),
            "a line that nobody reads any more | a line that nobody reads any more | done for");
  const std::string words = last_words(std::string(5000, 'x') + "\xc3\xa4 end");
  EXPECT_EQ(words.size(), 1024U);
  EXPECT_TRUE(words.starts_with("... xxx"));
  EXPECT_TRUE(words.ends_with("xä end"));
  EXPECT_EQ(last_words(std::string(20'000, 'x')).size(), 1024U) << "a line longer than what is looked at";
}

}  // namespace
}  // namespace trainyard::local
