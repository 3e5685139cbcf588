# Shared by the scripts: the folders of the installed tools, and functions for messages.
# shellcheck shell=bash disable=SC2034
cache_home="${TRAINYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trainyard}"
# The checksum of the tools' versions is in the folder's name. MinIO and the packages of PyPI and npm have folders of their own.
tools_home="$cache_home/tools-$({ sed -E '/^# Beside torch/d; /^WHEELS_/d; /^NPM_/d; /^(# )?MINIO_/d' "${BASH_SOURCE[0]%/*}/versions.env"; cat "${BASH_SOURCE[0]%/*}"/../tools/cluster/programs/{go.mod,coredns/main.go}; } | cksum | cut -d' ' -f1)"
minio_home="$cache_home/minio-$(. "${BASH_SOURCE[0]%/*}/versions.env" && echo "$MINIO_VERSION")"
torch_home="$cache_home/torch-$(. "${BASH_SOURCE[0]%/*}/versions.env" && echo "$TORCH_VERSION")"
bench_home="$cache_home/bench-$(. "${BASH_SOURCE[0]%/*}/versions.env" && cksum <<<"$WHEELS_BENCH" | cut -d' ' -f1)"
mutate_home="$cache_home/mutate-$(. "${BASH_SOURCE[0]%/*}/versions.env" && cksum <<<"$WHEELS_MUTATE" | cut -d' ' -f1)"
azurite_home="$cache_home/azurite-$(. "${BASH_SOURCE[0]%/*}/versions.env" && cksum <<<"$NPM_AZURITE" | cut -d' ' -f1)"

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else command -v sudo >/dev/null || die "this needs root, and there is no sudo: $*; run the script as root"; sudo "$@"; fi
}
