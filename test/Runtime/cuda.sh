#!/bin/sh
# Plans for GPUs from the command line:  cuda.sh BUILD SCRATCH PYTHON
set -eu
build=$1 scratch=$2 python=$3
here=$(dirname "$0")
tools=$here/../../tools
rm -rf "$scratch" && mkdir -p "$scratch"

fail() {
  echo "cuda.sh: $1" >&2
  exit 1
}
# expect TEXT FILE...
expect() {
  text=$1
  shift
  grep -qF -- "$text" "$@" || { cat "$@" >&2; fail "expected: $text"; }
}

COLOSSAL_TEST_DEVICE=cuda "$build/bin/write-plan" "$scratch/plain.cplan" plain
COLOSSAL_TEST_DEVICE=cuda "$build/bin/write-plan" "$scratch/ranks.cplan"
COLOSSAL_TEST_DEVICE=cuda "$build/bin/write-plan" "$scratch/contraction.cplan" contraction
COLOSSAL_TEST_DEVICE=cuda "$build/bin/write-plan" "$scratch/convolution.cplan" convolution
run=$build/bin/colossal-run

# Without a driver: what is missing, and nothing else goes wrong. Where there is one, this is not tried.
if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
  code=0
  "$run" "$scratch/plain.cplan" --random-inputs 1 2> "$scratch/none.txt" || code=$?
  [ $code = 5 ] || fail "without a driver: exit $code"
  expect 'the plan is for NVIDIA GPUs (sm_80): the NVIDIA driver cannot be opened: libcuda.so.1' "$scratch/none.txt"
  expect 'on-emulated-gpus' "$scratch/none.txt"
  "$run" --devices > "$scratch/devices.txt"
  expect 'missing: the NVIDIA driver cannot be opened' "$scratch/devices.txt"
fi

emulated="$tools/on-emulated-gpus --build $build"
$emulated 1 "$run" --devices > "$scratch/devices.txt"
expect 'executed by emulation; unseen on hardware' "$scratch/devices.txt"
expect 'driver: CUDA 13.0' "$scratch/devices.txt"
COLOSSAL_EMULATED_GPU_ARCHITECTURE=sm_100 COLOSSAL_EMULATED_GPUS=2 $emulated 1 "$run" --devices --json > "$scratch/devices.json"
expect 'cuda:1 executor of PTX on the host (sm_100, emulated)' "$scratch/devices.json"
# An older GPU than the plan's.
code=0
COLOSSAL_EMULATED_GPU_ARCHITECTURE=sm_75 $emulated 1 "$run" "$scratch/plain.cplan" --random-inputs 1 2> "$scratch/old.txt" || code=$?
[ $code = 5 ] || fail "on an older GPU: exit $code"
expect 'executes PTX for sm_75 and older' "$scratch/old.txt"
# Too little memory.
code=0
COLOSSAL_EMULATED_GPU_MEMORY=100000 $emulated 1 "$run" "$scratch/plain.cplan" --random-inputs 1 2> "$scratch/memory.txt" || code=$?
[ $code = 6 ] || fail "with little memory: exit $code"
expect 'has 100000 bytes, of which' "$scratch/memory.txt"

# The same outputs replayed, eager and traced.
for how in "" --eager "--trace $scratch/trace.json"; do
  # shellcheck disable=SC2086
  $emulated 1 "$run" "$scratch/plain.cplan" --random-inputs 1 --warm-up 3 --output "$scratch/out.npz" $how
  [ ! -f "$scratch/first.npz" ] && cp "$scratch/out.npz" "$scratch/first.npz"
  cmp "$scratch/out.npz" "$scratch/first.npz" || fail "other outputs with '$how'"
done
expect '/copy/Identity' "$scratch/trace.json"
# What a profiler is told: ranges with the names of ONNX nodes inside that of the program; of a replay that of the program only.
for how in "--eager" ""; do
  rm -f "$scratch/ranges.txt"
  # shellcheck disable=SC2086
  NVTX_INJECTION64_PATH=$build/lib/emulated/libnvtx-tool.so COLOSSAL_EMULATED_NVTX_RECORD=$scratch/ranges.txt \
    $emulated 1 "$run" "$scratch/plain.cplan" --random-inputs 1 --warm-up 5 --output "$scratch/out.npz" $how
  cmp "$scratch/out.npz" "$scratch/first.npz" || fail "other outputs below a profiler with '$how'"
  expect 'push 1 colossal infer' "$scratch/ranges.txt"
  expect 'push 2 colossal /copy/Identity' "$scratch/ranges.txt"
  grep -q error "$scratch/ranges.txt" && fail "ranges that do not nest with '$how'"
  [ "$(grep -c push "$scratch/ranges.txt")" = "$(grep -c pop "$scratch/ranges.txt")" ] || fail "ranges that do not end with '$how'"
  [ "$(tail -n 1 "$scratch/ranges.txt" | cut -d' ' -f2-)" = 'pop 0 colossal' ] || fail "the last range is another's with '$how'"
  grep -c 'push 2 colossal /copy/Identity' "$scratch/ranges.txt" > "$scratch/times.txt"
  # Six runs; or one that walks, one that is recorded, and four that are replayed.
  expect "$([ -n "$how" ] && echo 6 || echo 2)" "$scratch/times.txt"
done
$emulated 1 "$run" "$scratch/ranks.cplan" --random-inputs 1 --json > "$scratch/ranks.json"
expect '"device":"cuda:0 executor of PTX on the host (sm_90, emulated)","emulated":true,"ptx_instructions":' "$scratch/ranks.json"

# Processes, their places, and the first that fails.
$emulated 3 sh -c 'echo $RANK of $WORLD_SIZE' | sort > "$scratch/places.txt"
printf '0 of 3\n1 of 3\n2 of 3\n' | cmp - "$scratch/places.txt" || fail "places"
code=0
timeout 20 $emulated 2 sh -c '[ $RANK = 1 ] && exit 7; sleep 60' || code=$?
[ $code = 7 ] || fail "a process that fails: exit $code"

# Without cuBLASLt: plans that do without it run, and the others say what to install.
mkdir -p "$scratch/driver"
ln -sf "$build"/lib/emulated/libcuda.so.1 "$scratch/driver/"
if ! ldconfig -p 2>/dev/null | grep -q 'libcublasLt\.so'; then
  LD_LIBRARY_PATH=$scratch/driver "$run" "$scratch/plain.cplan" --random-inputs 1 > /dev/null
  code=0
  LD_LIBRARY_PATH=$scratch/driver "$run" "$scratch/contraction.cplan" --random-inputs 1 2> "$scratch/library.txt" || code=$?
  [ $code = 5 ] || fail "without cuBLASLt: exit $code"
  expect 'cuBLASLt cannot be opened: libcublasLt.so.13' "$scratch/library.txt"
  expect "install NVIDIA's cuBLAS" "$scratch/library.txt"
  LD_LIBRARY_PATH=$scratch/driver "$run" --devices > "$scratch/devices.txt"
  expect 'missing: cuBLASLt cannot be opened' "$scratch/devices.txt"
fi
if ! ldconfig -p 2>/dev/null | grep -q 'libcudnn\.so\.9'; then
  code=0
  LD_LIBRARY_PATH=$scratch/driver "$run" "$scratch/convolution.cplan" --random-inputs 1 2> "$scratch/library.txt" || code=$?
  [ $code = 5 ] || fail "without cuDNN: exit $code"
  expect 'the plan calls cuDNN: cuDNN cannot be opened: libcudnn.so.9' "$scratch/library.txt"
  expect 'compile the plan without --cudnn' "$scratch/library.txt"
fi
$emulated 1 "$run" --devices > "$scratch/devices.txt"
expect 'cuBLASLt: 13.0.0' "$scratch/devices.txt"
expect 'cuDNN: 9.21.0' "$scratch/devices.txt"

"$python" "$here/cuda_faults.py" --build "$build" "$scratch/plain.cplan" "$scratch/ranks.cplan" "$scratch/contraction.cplan" "$scratch/convolution.cplan"
