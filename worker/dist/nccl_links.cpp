#include "worker/dist/nccl_links.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "worker/rank/environment.hpp"

namespace trainyard::dist {
namespace {

constexpr std::size_t text_bytes_max = std::size_t{1} << 20;

/// Takes `text` up to the next `end` off its beginning. Nothing when there is no `end`.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view end) {
  const auto at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + end.size());
  return taken;
}

/// The rank of "3[0]": NCCL names the GPU after it.
std::optional<std::int64_t> rank_of(std::string_view text) {
  std::int64_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  const auto left = static_cast<std::size_t>(text.data() + text.size() - end);
  if (error != std::errc{} || left == 0 || *end != '[') return std::nullopt;
  return rank;
}

/// Reads a line such as "host:12:34 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0/GDRDMA".
std::optional<NcclLink> parse_link(std::string_view line, std::int64_t rank) {
  if (!take_until(line, "NCCL INFO Channel ") || !take_until(line, " : ")) return std::nullopt;
  const auto from = take_until(line, " -> ");
  const auto to = take_until(line, " ");
  const auto direction = take_until(line, "via ");
  if (!from || !to || !direction || direction->starts_with("[receive]") || rank_of(*from) != rank) return std::nullopt;
  const auto peer = rank_of(*to);
  const std::string_view transport = line.substr(0, line.find_first_of(" \r"));
  if (!peer || *peer == rank || transport.empty()) return std::nullopt;
  return NcclLink{.peer = *peer, .transport = std::string{transport}};
}

}  // namespace

NcclLog::NcclLog() {
  if (rank::exact_variable("NCCL_DEBUG") || rank::exact_variable("NCCL_DEBUG_FILE")) return;
  file_ = memfd_create("nccl-log", MFD_CLOEXEC);
  if (file_ < 0) return;  // Only the report of the links is then missing.
  // NOLINTBEGIN(concurrency-mt-unsafe): before any other thread.
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_SUBSYS", "INIT", 0);
  setenv("NCCL_DEBUG_FILE", fmt::format("/proc/self/fd/{}", file_).c_str(), 1);
  // NOLINTEND(concurrency-mt-unsafe)
}

NcclLog::~NcclLog() {
  if (file_ >= 0) close(file_);
}

std::string NcclLog::text() const {
  std::string text;
  if (file_ < 0) return text;
  text.resize(text_bytes_max);
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = pread(file_, text.data() + size, text.size() - size, static_cast<off_t>(size));
    if (count <= 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return text;
}

std::vector<NcclLink> parse_nccl_links(std::string_view log, std::int64_t rank) {
  std::vector<NcclLink> links;
  while (const auto line = take_until(log, "\n")) {
    auto link = parse_link(*line, rank);
    if (link && std::ranges::find(links, *link) == links.end()) links.push_back(std::move(*link));
  }
  return links;
}

std::string to_text(std::span<const NcclLink> links) {
  std::vector<std::string> parts;
  for (const NcclLink& link : links) parts.push_back(fmt::format("{} to {}", link.transport, link.peer));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::optional<std::string> network_in_pod_warning(std::span<const NcclLink> links, std::int64_t rank,
                                                  std::span<const rank::Seat> seats) {
  const auto seat_of = [seats](std::int64_t of) {
    return of >= 0 && of < static_cast<std::int64_t>(seats.size()) ? &seats[static_cast<std::size_t>(of)] : nullptr;
  };
  const rank::Seat* const own = seat_of(rank);
  for (const NcclLink& link : links) {
    const rank::Seat* const peer = seat_of(link.peer);
    if (own == nullptr || peer == nullptr || *own != *peer || !link.transport.starts_with("NET/")) continue;
    return fmt::format(
        "rank {} sends to rank {} of the same pod on node {} over the network ({}), and not by NVLink, PCIe or shared "
        "memory, which slows each step. Look at `nvidia-smi topo -m` on that node, at the size of the pod's /dev/shm, "
        "and for NCCL_P2P_DISABLE and NCCL_SHM_DISABLE in its environment",
        rank, link.peer, own->node, link.transport);
  }
  return std::nullopt;
}

}  // namespace trainyard::dist
