// Passes that decide what of a program runs where, and in which order.
#ifndef COLOSSAL_STEP_PASSES_TD
#define COLOSSAL_STEP_PASSES_TD

include "mlir/Pass/PassBase.td"

def PropagateBatch : Pass<"colossal-propagate-batch", "::mlir::ModuleOp"> {
  let summary = "Put the loop axis of the mesh onto the batch";
  let description = [{
    Where the module's `dist.mesh` has a loop axis, its turns are microbatches: each works on a part of the batch. Follows the
    batch from the inputs through the factor rules of all ops, and writes down where it stands, as far as the loop axis goes: in
    `dist.assignment` of ops, and in `dist.sharding` of arguments and results. What depends on no input's batch stays as it is,
    and is the same in all turns. The search completes these layouts by the axes that ranks lie along.

    The batch of an input is the dimension that its attribute `colossal.batch` numbers. Where no input of a function has that, it
    is the first dimension of all inputs; those of size 1 have none.

    An op that does not treat the rows of the batch each for itself (it sums over them, say) is refused, all such ops at once,
    and so is a batch of fewer rows than turns. Where the rows fill fewer turns than asked for, the loop axis is made so short,
    with a warning.
  }];
  let dependentDialects = ["::colossal::dist::DistDialect"];
}

def MergeCasts : Pass<"colossal-merge-casts", "::mlir::ModuleOp"> {
  let summary = "Keep one copy of a state in another type";
  let description = [{
    Every op that reads a parameter in a narrow type has a cast of its own up to here, by which it is known which node reads
    which parameter. Of those of one state in one function, and so in one stage, that products and convolutions read, the first
    is kept, and all read it; of those that the backward pass makes again, too. Other casts stay: no memory holds their results.
  }];
}

def CutStages : Pass<"colossal-cut-stages", "::mlir::ModuleOp"> {
  let summary = "Cut the functions of a module into pipeline stages";
  let description = [{
    Where the module's `dist.mesh` has an axis `stage` of two or more, makes a nested module for each stage (Stages.h of
    the Dist dialect says how they look), with the mesh of the other axes, and moves each op into one of them. Nothing is
    done where the mesh has none, or is cut already.

    What depends on parameters and constants only is computed in each stage that uses it, and so is what is cheap to
    compute from inputs (masks). All else is a chain in the order of the functions, and cut where the slowest stage is
    fastest while no stage holds much more than its part of the weights; of cuts that are about as fast, the one across
    which the fewest bytes go. Several functions are cut alike: where the weights lie is decided for the one that takes
    longest.

    With `chunks=C` the model is cut into C times as many parts, dealt out to the stages in turn: of S stages, part p stands in
    stage p mod S, as its chunk p / S. `dist.chunk` on a function's results, and on arguments that are received, says which.

    Pins `REGEX=stage:K` put the ops whose ONNX names match into stage K, or, with chunks, into part K. Pins against the flow of
    data are refused.
  }];
  let options = [
    ListOption<"pins", "pin", "std::string", "Stages that are fixed: REGEX=stage:K">,
    Option<"machine", "machine", "std::string", "\"\"", "Machine file or name">,
    Option<"memory", "memory", "uint64_t", "0", "Bytes per device; 0: the machine's">,
    Option<"chunks", "chunks", "int64_t", "1", "Parts of the model that each stage has">
  ];
  let dependentDialects = ["::colossal::dist::DistDialect", "::mlir::func::FuncDialect"];
}

def PlanTransfers : Pass<"colossal-plan-transfers", "::mlir::ModuleOp"> {
  let summary = "Find the messages that bring values from stage to stage";
  let description = [{
    Runs when functions are partitioned and layouts known. Writes `dist.messages` on every result that is sent and every
    argument that is received: which elements go from which rank to which, in which order. Every receiver gets each
    element once. Messages of one value between the same ranks of two stages are one; they come in rounds, in which no
    rank sends or receives twice.

    With `sends-wait` every message has a place in one order of all of them (`MessageOrder.h`), so that no ranks wait for one
    another in a circle where a send waits for its receiver and no memory holds its message.
  }];
  let options = [
    Option<"sendsWait", "sends-wait", "bool", "false", "Sends wait for their receivers where the program runs">
  ];
  let dependentDialects = ["::colossal::dist::DistDialect"];
}

#endif // COLOSSAL_STEP_PASSES_TD
