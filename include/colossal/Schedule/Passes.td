// Passes of the schedule phase.
#ifndef COLOSSAL_SCHEDULE_PASSES_TD
#define COLOSSAL_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def SchedulePrograms : Pass<"colossal-schedule", "::mlir::ModuleOp"> {
  let summary = "Turn local tensors and collectives into programs over arenas, with kernels";
  let description = [{
    Every function becomes a program: its fusion groups are launches of kernels, its values lie at offsets of arenas, and what
    depends on parameters alone goes into the load program. The contract of the result is in Schedule.h. Machine code lies
    beside the IR: run alone, the pass drops it.
  }];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"", "What to compile for, KIND[:PROCESSOR]: cpu is this host, cpu:NAME LLVM's processor of that name">,
    Option<"targetCpu", "target-cpu", "std::string", "\"\"", "The processor of a target that names none">,
    Option<"threads", "threads", "unsigned", "0", "Threads that compile kernels; 0: one a core">,
    Option<"rankThreads", "rank-threads", "unsigned", "2", "Threads that a rank is expected to run with; tile sizes depend on it">,
    Option<"winograd", "winograd", "bool", "true", "Let 3x3 convolutions take more memory to be faster">,
    Option<"compileKernels", "compile-kernels", "bool", "true", "Make machine code; without it only sizes and order are found">
  ];
  let dependentDialects = ["::colossal::plan::PlanDialect"];
}

def OutlinePrograms : Pass<"colossal-outline-programs", "::mlir::ModuleOp"> {
  let summary = "Turn repeated instructions into functions that programs call";
  let description = [{
    The layers of a model are instructions that differ by places and names only: where their weights lie, which parameters they
    load. Each sequence of such instructions becomes a `plan.function`, and stands as calls where it stood. What differs by the same
    steps from call to call is one argument, which buffers move by with strides. Calls carry the names of the places that they
    stand for. What runs, in which order and where, stays as it is. Instructions with events stay where they are, and so do messages
    between stages; each stage has functions of its own.
  }];
  let options = [
    Option<"least", "least", "int64_t", "8", "How many instructions a function saves at least, calls counted as one each">
  ];
  let dependentDialects = ["::colossal::plan::PlanDialect", "::mlir::arith::ArithDialect"];
}

#endif // COLOSSAL_SCHEDULE_PASSES_TD
