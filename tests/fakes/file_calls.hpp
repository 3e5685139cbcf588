#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

/// The calls by which this program changes files (writev, fsync, mkdir, rmdir, rename, link, unlink), and fstatat, by
/// which it looks at them, for tests that record them or let one of them fail or be the program's last. A call and its
/// form that takes a folder's descriptor have one name. file_calls.cpp's functions stand in for libc's wherever it is
/// linked.
namespace trainyard::fakes {

struct FileCall {
  std::string_view name;
  std::size_t bytes = 0;  ///< That a writev is to write.
  std::string path = {};  ///< The file or folder; of a rename or a link: its new name.
};

/// What becomes of a call.
struct FileFate {
  enum class Kind {
    done,  ///< As without a test.
    skip,  ///< Success, and nothing happens.
    fail,  ///< With `error_number`, and nothing happens.
    kill,  ///< The program dies of SIGKILL in it: after `bytes` of a writev, before any other call.
  };
  Kind kind = Kind::done;
  int error_number = 0;
  std::size_t bytes = 0;
};

/// Asked before each call, from any thread. nullptr: all are done. Set while no other thread changes files.
void decide_file_calls(std::function<FileFate(const FileCall&)> decide);

}  // namespace trainyard::fakes
