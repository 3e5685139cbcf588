// trainyard-store FD: hosts the group's rendezvous store on the listening socket that it inherits, until it is killed.
// Rank 0's launcher starts it as a process of its own, so that a stopped or dead rank cannot block the others'
// look-ups.
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <exception>
#include <string_view>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "api/contract.hpp"

int main(int argc, char** argv) {
  int listener = -1;
  const std::string_view number = argc == 2 ? argv[1] : "";
  if (std::from_chars(number.data(), number.data() + number.size(), listener).ec != std::errc{} || listener < 0) {
    std::fputs("usage: trainyard-store FD (the number of an inherited listening socket); trainyard-worker starts it\n",
               stderr);
    return trainyard::contract::exit_do_not_restart;
  }
  try {
    c10d::TCPStoreOptions options;
    options.isServer = true;
    options.waitWorkers = false;
    options.masterListenFd = listener;
    options.port = 0;
    const c10d::TCPStore store{"127.0.0.1", options};
    while (true) pause();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trainyard-store: hosting the rendezvous store: %s\n", error.what());
    return trainyard::contract::exit_rendezvous;
  }
}
