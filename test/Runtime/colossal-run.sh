#!/bin/sh
# colossal-run from outside: exit codes, messages, files, failing and hanging ranks, and no process left behind.
#   colossal-run.sh BIN_FOLDER SCRATCH_FOLDER [MPIEXEC]
bin=$1 scratch=$2 mpiexec=$3
rm -rf "$scratch" && mkdir -p "$scratch/hang" "$scratch/crash" || exit 1
cd "$scratch" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
failures=0

# expect CODE PATTERN COMMAND...: the exit code, and a pattern that the output must hold.
expect() {
  code=$1 pattern=$2
  shift 2
  "$@" > log 2>&1
  got=$?
  if [ $got -ne "$code" ] || { [ -n "$pattern" ] && ! grep -q -e "$pattern" log; }; then
    echo "FAIL: $*"
    echo "  exit code $got, expected $code; expected to find: $pattern"
    sed 's/^/  | /' log
    failures=$((failures + 1))
  fi
}

"$bin/write-plan" stages.cplan stages && "$bin/write-plan" waits.cplan waits || exit 1
"$bin/write-plan" plan.cplan && "$bin/write-plan" hang/plan.cplan hang && "$bin/write-plan" crash/plan.cplan crash || exit 1
run="$bin/colossal-run"

expect 0 'Exit codes' "$run" --help
expect 0 'reads plans up to version' "$run" --version
expect 0 'x: f32\[8,6\]' "$run" plan.cplan --print-inputs
expect 0 'all_reduce sum over b' "$run" plan.cplan --dump-plan
expect 0 '"name":"x","shape":\[8,6\],"type":"f32"' "$run" plan.cplan --print-inputs --json
expect 0 '"all_reduce"\|ALL_REDUCE' "$run" plan.cplan --dump-plan --json
expect 2 "input 'x' is missing" "$run" plan.cplan
expect 2 'expected FILE.npz' "$run" plan.cplan --input other.txt
expect 2 '^colossal-run: .*--no-such-option' "$run" plan.cplan --no-such-option
expect 3 'cannot open' "$run" missing.cplan
expect 3 'cannot open' "$run" plan.cplan --input missing.npz

expect 0 '' "$run" plan.cplan --random-inputs 1 --output one.npz
expect 0 'y: worst error 0 absolute' "$run" plan.cplan --random-inputs 1 --expect one.npz
expect 1 'FAIL' "$run" plan.cplan --random-inputs 2 --expect one.npz
expect 0 '"collective_bytes":108' "$run" plan.cplan --random-inputs 1 --benchmark 5 --json
expect 0 '"warm_up_runs":7' "$run" plan.cplan --random-inputs 1 --benchmark 5 --warm-up 7 --json
expect 0 '90 % within .* ms' "$run" plan.cplan --random-inputs 1 --benchmark 5
expect 0 '/sum/Add (all_reduce)' "$run" plan.cplan --random-inputs 1 --benchmark 5
expect 0 'planned bytes' "$run" plan.cplan --random-inputs 1 --memory
expect 0 '' "$run" plan.cplan --random-inputs 1 --trace trace.json
expect 0 '/sum/Add' cat trace.json
expect 2 "no input 'y'" "$run" plan.cplan --input one.npz
expect 3 'cannot open weight file' "$run" plan.cplan --random-inputs 1 --weights /nonexistent
mkdir moved && mv w.bin moved/
expect 3 'says where it is now' "$run" plan.cplan --random-inputs 1
expect 0 'ok' "$run" plan.cplan --random-inputs 1 --expect one.npz --weights moved
expect 0 'ok' "$run" plan.cplan --random-inputs 1 --expect one.npz --weights moved/w.bin
expect 1 'z: worst error' "$run" plan.cplan --random-inputs 1 --expect one.npz --random-weights 5
mv moved/w.bin .

# What was read is not written over: by its name, by another spelling, through links. Nor is a file named '-'.
cp one.npz two.npz && cp plan.cplan whole.cplan && cp w.bin whole.bin
ln -s plan.cplan link.npz && ln w.bin hard.json && ln -s ../"$(basename "$scratch")"/one.npz one-again.npz
expect 2 'cannot write link.npz: it is the file plan.cplan' "$run" plan.cplan --random-inputs 1 --output link.npz
expect 2 'cannot write .*/plan.cplan' "$run" plan.cplan --random-inputs 1 --output "$scratch/./plan.cplan"
expect 2 'cannot write hard.json: it is the file ./w.bin' "$run" plan.cplan --random-inputs 1 --trace hard.json
expect 2 'cannot write one-again.npz: it is the file one.npz' "$run" plan.cplan --random-inputs 1 --expect one.npz --output one-again.npz
expect 2 'are both' "$run" plan.cplan --random-inputs 1 --output both --trace both
expect 2 'output: standard output has' "$run" plan.cplan --random-inputs 1 --output -
expect 2 'trace: standard output has' "$run" plan.cplan --random-inputs 1 --trace -
expect 0 '' cmp one.npz two.npz
expect 0 '' cmp plan.cplan whole.cplan
expect 0 '' cmp w.bin whole.bin
expect 1 '' test -e -

# What cannot be read or written is said before the run where it can be, and always said.
expect 3 'cannot open missing.npz' "$run" plan.cplan --random-inputs 1 --expect missing.npz --output new.npz
python3 -c "
import struct, zipfile
def npy(shape):
    head = repr({'descr': '<f4', 'fortran_order': False, 'shape': shape}).ljust(117) + '\n'
    count = 1
    for size in shape: count *= size
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + bytes(4 * count)
for file, name, shape in (('shape.npz', 'y', (2, 3)), ('name.npz', 'nothing', (8, 6))):
    with zipfile.ZipFile(file, 'w') as archive: archive.writestr(name + '.npy', npy(shape))
" || exit 1
expect 2 "'y' is f32\[2,3\], and the output of program .* is f32" "$run" plan.cplan --random-inputs 1 --expect shape.npz --output new.npz
expect 2 "no output 'nothing', it has 'y', 'z'" "$run" plan.cplan --random-inputs 1 --expect name.npz --output new.npz
expect 3 'cannot write absent/new.npz' "$run" plan.cplan --random-inputs 1 --output absent/new.npz
expect 3 'cannot write /dev/full: No space' "$run" plan.cplan --random-inputs 1 --trace /dev/full
expect 1 '' test -e new.npz
for what in '--random-inputs 1 --json' '--random-inputs 1 --memory' --print-inputs --dump-plan --help; do
  expect 3 'cannot write standard output' sh -c "'$run' plan.cplan $what > /dev/full"
done
cp w.bin whole.bin && head -c 3 whole.bin > w.bin
expect 3 'weight file ./w.bin has 3 bytes' "$run" plan.cplan --random-inputs 1
cp whole.bin w.bin

# Copies of the run that a launcher started without saying so to the runtime are pointed out, by the first of them.
expect 0 '4 processes were started .* --comm mpi' env OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 "$run" plan.cplan --random-inputs 1
expect 0 '2 processes were started' env SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 "$run" plan.cplan --random-inputs 1
PMI_SIZE=4 PMI_RANK=1 "$run" plan.cplan --random-inputs 1 > log 2>&1 || failures=$((failures + 1))
[ -s log ] && { echo "FAIL: another copy than the first warns"; failures=$((failures + 1)); }

cp plan.cplan open.cplan && chmod o+w open.cplan
expect 4 'may be written' "$run" open.cplan --random-inputs 1
head -c 3000 plan.cplan > short.cplan
expect 4 'should have' "$run" short.cplan --random-inputs 1

expect 7 '/faulty/Op' "$run" hang/plan.cplan --random-inputs 1 --timeout 1
# Stages: their own texts, and messages from one to the other; a receive that waits in vain ends with the run.
expect 0 "stage 1 'back': ranks 2 to 3" "$run" stages.cplan --dump-plan
expect 0 '' "$run" stages.cplan --random-inputs 1 --output staged.npz
expect 0 '"axes":"stage","kind":"send","planned_bytes":16,"rank":1,"sent_bytes":16,"stage":0' "$run" stages.cplan --random-inputs 1 --benchmark 3 --json
expect 0 '' "$run" stages.cplan --random-inputs 1 --trace trace.json
expect 0 "rank 2 of stage 1 'back'" cat trace.json
expect 7 '/faulty/Op\|message' "$run" waits.cplan --random-inputs 1 --timeout 1
expect 139 'rank 3 crashed in an instruction from /faulty/Op' sh -c "'$run' crash/plan.cplan --random-inputs 1; exit \$?"
"$run" hang/plan.cplan --random-inputs 1 > log 2>&1 &
pid=$!
sleep 1
kill -INT $pid
wait $pid
[ $? -eq 130 ] || { echo "FAIL: Ctrl-C does not end a hanging run"; failures=$((failures + 1)); }

# ended_in SECONDS: waits for the process $pid and sets $got to its exit code; 124 where it takes longer.
ended_in() {
  (sleep "$1"; kill -KILL "$pid") 2> /dev/null &
  guard=$!
  begin=$(date +%s)
  wait "$pid"
  got=$?
  [ $(($(date +%s) - begin)) -lt "$1" ] || got=124
  kill $guard 2> /dev/null
}

# started COUNT: waits until so many children of $pid that run $plan.cplan catch SIGINT, and a little longer: how long that
# takes depends on what else the machine does.
started() {
  for attempt in $(seq 120); do
    catching=0
    for child in $(pgrep -P $pid -f $plan.cplan); do
      # Of the mask's last four, from SIGHUP on, SIGINT is the second.
      case $(sed -n 's/^SigCgt:.*\(.\)$/\1/p' "/proc/$child/status" 2> /dev/null) in
        [2367abef]) catching=$((catching + 1)) ;;
      esac
    done
    [ $catching -lt "$1" ] || break
    sleep 0.5
  done
  sleep 3
}

# An endless run ends by each of these, and says so.
for signal in 'INT 130' 'TERM 143'; do
  # In a receive that waits in vain: the rank that computes for ever is left behind, and the process ends.
  "$run" waits.cplan --random-inputs 1 > log 2>&1 &
  pid=$!
  sleep 1
  kill -${signal% *} $pid
  ended_in 20
  [ $got -eq "${signal#* }" ] || { echo "FAIL: SIG$signal does not end a run that waits for a message: exit code $got"; failures=$((failures + 1)); }
  set -- $signal
  "$run" plan.cplan --random-inputs 1 --benchmark 100000000 > log 2>&1 &
  pid=$!
  sleep 1
  kill -$1 $pid
  ended_in 20
  [ $got -eq "$2" ] && grep -q interrupted log || { echo "FAIL: SIG$1 does not end a run: exit code $got"; failures=$((failures + 1)); }
done

if [ -n "$mpiexec" ]; then
  mpi="$mpiexec --oversubscribe -n"
  expect 0 'z: worst error 0 absolute' $mpi 4 "$run" plan.cplan --comm mpi --random-inputs 1 --expect one.npz
  expect 1 'FAIL' $mpi 4 "$run" plan.cplan --comm mpi --random-inputs 2 --expect one.npz
  expect 2 'MPI started 2 processes' $mpi 2 "$run" plan.cplan --comm mpi --random-inputs 1
  expect 3 'cannot open weight file' $mpi 4 "$run" plan.cplan --comm mpi --random-inputs 1 --weights /nonexistent
  expect 7 '/faulty/Op' $mpi 4 "$run" hang/plan.cplan --comm mpi --random-inputs 1 --timeout 1
  expect 0 'y: worst error 0 absolute' $mpi 4 "$run" stages.cplan --comm mpi --random-inputs 1 --expect staged.npz
  expect 7 '/faulty/Op\|message' $mpi 4 "$run" waits.cplan --comm mpi --random-inputs 1 --timeout 1
  expect 139 'rank 3 crashed in an instruction from /faulty/Op' $mpi 4 "$run" crash/plan.cplan --comm mpi --random-inputs 1

  # One process of an endless run is killed, or stopped for good, or crashes between runs: all end, within the time that
  # ranks wait for each other and mpirun's own seconds, and what is printed tells why.
  # So do ranks that wait for a message from one that never comes to sending it.
  for case in 'plan KILL 137 signal 9' 'plan STOP 7 no progress for 2 s' 'plan SEGV 139 crashed' 'plan INT 130 interrupted' 'plan TERM 143 interrupted' \
    'waits KILL 137 signal 9' 'waits INT 130 interrupted'; do
    set -- $case
    plan=$1 signal=$2 code=$3
    shift 3
    timeout=2
    [ $plan = plan ] || timeout=60
    $mpi 4 "$run" $plan.cplan --comm mpi --random-inputs 1 --benchmark 100000000 --timeout $timeout > log 2>&1 &
    pid=$!
    started 4
    ranks=$(pgrep -P $pid -f $plan.cplan)
    [ "$(echo $ranks | wc -w)" -eq 4 ] || { echo "FAIL: MPI runs processes '$ranks', expected 4"; failures=$((failures + 1)); }
    victim=$(echo $ranks | cut -d' ' -f3)
    number=$(tr '\0' '\n' < "/proc/$victim/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')
    kill -$signal "$victim"
    ended_in 60
    # The one that is stopped is named by those that wait for it.
    [ $signal != STOP ] || set -- "$* *: rank $number does not answer"
    if [ $got -ne "$code" ] || ! grep -q "$*" log; then
      echo "FAIL: SIG$signal to one MPI process of $plan.cplan: exit code $got, expected $code; expected to find: $*"
      sed 's/^/  | /' log
      failures=$((failures + 1))
    fi
    for rank in $ranks; do
      # A rank may go a moment after mpirun. What is gone and not yet collected by its parent is no orphan, nor is another
      # program that has its number since.
      for attempt in 1 2 3 4 5 6 7 8 9 10; do
        state=$(sed -n 's/^[0-9]* (colossal-run) \(.\).*/\1/p' "/proc/$rank/stat" 2> /dev/null)
        case $state in
          '' | Z | X) break ;;
        esac
        sleep 1
      done
      case $state in
        '' | Z | X) ;;
        *) echo "FAIL: after SIG$signal to one MPI process, process $rank is left"; kill -KILL "$rank"; failures=$((failures + 1)) ;;
      esac
    done
  done
fi
sleep 0.2
if pgrep -f "$run .*$(basename "$scratch")" > /dev/null 2>&1; then
  echo "FAIL: processes are left behind"
  failures=$((failures + 1))
fi
[ $failures -eq 0 ] && echo "all as expected"
exit $failures
