#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

/// Lets tests record the calls by which this program changes files (writev, fsync, mkdir, rmdir, rename, link, unlink)
/// and looks at them (fstatat), make a call fail, or kill the program in it. A call and its form that takes a folder's
/// descriptor have one name. The functions of file_calls.cpp replace libc's in every program that links it.
namespace trainyard::fakes {

struct FileCall {
  std::string_view name;
  std::size_t bytes = 0;  ///< The size of a writev.
  std::string path = {};  ///< The file or folder; for a rename or link, the new name.
};

/// The outcome of a call.
struct FileFate {
  enum class Kind {
    done,  ///< The call is made.
    skip,  ///< Success, and nothing happens.
    fail,  ///< With `error_number`, and nothing happens.
    kill,  ///< SIGKILL ends the program: after `bytes` of a writev, or before any other call.
  };
  Kind kind = Kind::done;
  int error_number = 0;
  std::size_t bytes = 0;
};

/// Sets the function that is called before each call, on any thread; nullptr: all calls are made. Call it while no
/// other thread changes files.
void decide_file_calls(std::function<FileFate(const FileCall&)> decide);

}  // namespace trainyard::fakes
