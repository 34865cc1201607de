#!/bin/sh
# sh quickstart.sh        installs what is missing, builds, replays a recording, models sm_120, makes two reports in out/
# sh quickstart.sh test   the same, then all tests
# Debian and Ubuntu are set up by apt (sudo where you are not root); elsewhere the packages are named and that is all.
set -eu
cd "$(dirname "$0")"

build="gcc g++ make pkg-config libhdf5-dev libgsl-dev libjansson-dev libinih-dev libelf-dev libiberty-dev liblz4-dev libzstd-dev libzip-dev zlib1g-dev libssl-dev libcunit1-dev"
run="gnuplot-nox fonts-dejavu-core"
# what the tests use beside the programs: poppler counts a report's pages, h5dump opens the datasets
tests="hdf5-tools poppler-utils"

wanted="$build $run"
[ "${1:-}" = test ] && wanted="$wanted $tests"
missing=""
for p in $wanted; do
  dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q "ok installed" || missing="$missing $p"
done
if [ -n "$missing" ]; then
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "quickstart: this system has no apt-get. Install the equivalents of these Debian packages, then run make:" >&2
    echo "  $wanted" >&2
    exit 5
  fi
  sudo=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "quickstart: not root and no sudo; as root: apt-get install$missing" >&2; exit 5; }
    sudo=sudo
  fi
  echo "quickstart: installing$missing"
  $sudo apt-get update -q
  # shellcheck disable=SC2086 # a list of packages
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
fi

make -j"$(nproc)"

mkdir -p out
build/kvsim replay traces/samples/mixed_eagle.h5 -o out/mixed_eagle.kvsim.h5 --report out \
  --layout-out out/request.kvlayout.h5 --request 261 --step 850
build/roofline --gpu sm_120 --sweep prefix=4096:189440 -o out/sm_120.h5 --report out
build/roofline --gpu sm_120 --layout out/request.kvlayout.h5 -o out/sm_120-recorded.h5 --no-report

echo
echo "reports:  out/mixed_eagle.kvsim.pdf  (how scattered the recorded pool is)"
echo "          out/sm_120.pdf             (what an RTX PRO 6000 could do with the verify attention, modelled)"
echo "datasets: out/*.h5"

if [ "${1:-}" = test ]; then make test; fi
