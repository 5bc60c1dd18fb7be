// KernelCompiler: MLIR's and LLVM's passes in process, on worker threads with a context of their own.
//
// The pass lists are short on purpose: LLVM's stock -O3 unrolls our loops of static length completely, which
// costs compile time and, for kernels larger than the instruction cache, up to half the speed.
#include "colossal/Codegen/CPU/KernelCompiler.h"
#include "colossal/Codegen/CPU/KernelFunction.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Conversion/VectorToSCF/VectorToSCF.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

using namespace mlir;

namespace colossal::cpu {
namespace {

/// Replaces the math ops for which MLIR's polynomials are as good as libm (a few ulp) by them. The others
/// (sin, cos, atan, cbrt: wrong beyond 1e-6) stay for libm.
struct ExpandMath : PassWrapper<ExpandMath, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMath)
  void runOnOperation() override {
    bool any = false;
    getOperation()->walk([&](Operation *op) {
      if (isa<math::MathDialect>(op->getDialect()) && !isa<math::FmaOp, math::SqrtOp>(op)) {
        any = true;
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    if (!any)
      return;
    RewritePatternSet patterns(&getContext());
    static const llvm::StringSet<> names = {"math.log",  "math.log2", "math.log1p", "math.expm1",
                                            "math.tanh", "math.erfc", "math.asin",  "math.acos"};
    populateMathPolynomialApproximationPatterns(patterns,
                                                [](StringRef name) { return names.contains(name); });
    (void)applyPatternsGreedily(getOperation(), std::move(patterns));
  }
};

/// The dialects and translations that workers need, registered once.
const DialectRegistry &registry() {
  static const DialectRegistry instance = [] {
    DialectRegistry result;
    registerBuiltinDialectTranslation(result);
    registerLLVMDialectTranslation(result);
    return result;
  }();
  return instance;
}

LogicalResult lowerToLLVMDialect(ModuleOp module) {
  MLIRContext *context = module.getContext();
  PassManager pm(context, ModuleOp::getOperationName());
  pm.enableVerifier(false);
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(std::make_unique<ExpandMath>());
  pm.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  pm.addPass(createConvertVectorToSCFPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  ConvertVectorToLLVMPassOptions vectorOptions;
  pm.addPass(createConvertVectorToLLVMPass(vectorOptions));
  ConvertMathToLLVMPassOptions mathOptions;
  pm.addPass(createConvertMathToLLVMPass(mathOptions));
  pm.addPass(createConvertMathToLibmPass());
  pm.addPass(createConvertVectorToLLVMPass(vectorOptions));
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions funcOptions;
  funcOptions.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(funcOptions));
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createCSEPass());
  return pm.run(module);
}

std::unique_ptr<llvm::TargetMachine> createTargetMachine(const Processor &processor) {
  std::string error;
  llvm::Triple triple(processor.triple());
  const llvm::Target *llvmTarget = llvm::TargetRegistry::lookupTarget(triple, error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(
      llvmTarget->createTargetMachine(triple, processor.cpu(), processor.featureString(), options,
                                      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
}

/// One thread's compiler: contexts are reused between kernels.
class Worker {
public:
  explicit Worker(const Processor &processor)
      : processor(processor), context(registry(), MLIRContext::Threading::DISABLED),
        machine(createTargetMachine(processor)) {
    KernelFunction::loadDialects(context);
    context.loadDialect<LLVM::LLVMDialect>();
  }

  llvm::Expected<std::string> compileText(StringRef text, StringRef symbol) {
    std::string diagnostics;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      llvm::raw_string_ostream(diagnostics) << diagnostic << "\n";
      return success();
    });
    ParserConfig config(&context, /*verifyAfterParse=*/false);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, config);
    if (!module)
      return llvm::createStringError("kernel " + symbol.str() + " cannot be read back: " + diagnostics);
    return compile(*module, symbol);
  }

  llvm::Expected<std::string> compile(ModuleOp module, StringRef symbol) {
    std::string diagnostics;
    ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
      llvm::raw_string_ostream(diagnostics) << diagnostic << "\n";
      return success();
    });
    auto failure = [&](StringRef what) {
      return llvm::createStringError("kernel " + symbol.str() + ": " + what.str() +
                                     " failed: " + diagnostics);
    };
    if (failed(lowerToLLVMDialect(module)))
      return failure("lowering to the LLVM dialect");
    llvm::LLVMContext llvmContext;
    std::unique_ptr<llvm::Module> translated = translateModuleToLLVMIR(module, llvmContext, symbol);
    if (!translated)
      return failure("translation to LLVM IR");
    translated->setTargetTriple(llvm::Triple(processor.triple()));
    translated->setDataLayout(machine->createDataLayout());
    llvm::Function *entry = translated->getFunction(KernelFunction::entryName);
    if (!entry)
      return failure("finding its entry point");
    entry->setName(symbol);
    entry->setVisibility(llvm::GlobalValue::ProtectedVisibility);
    for (llvm::Function &function : *translated) {
      if (function.isDeclaration())
        continue;
      if (&function != entry) {
        function.setLinkage(llvm::GlobalValue::InternalLinkage);
        function.addFnAttr(llvm::Attribute::NoInline);
      }
      function.addFnAttr("target-cpu", processor.cpu());
      function.addFnAttr("target-features", processor.featureString());
      function.addFnAttr("prefer-vector-width", std::to_string(processor.vectorBytes() * 8));
      function.addFnAttr("min-legal-vector-width", std::to_string(processor.vectorBytes() * 8));
      function.addFnAttr("no-trapping-math", "true");
      function.setDoesNotThrow();
    }
    optimize(*translated);

    llvm::SmallVector<char, 0> object;
    llvm::raw_svector_ostream stream(object);
    llvm::legacy::PassManager codegen;
    if (machine->addPassesToEmitFile(codegen, stream, nullptr, llvm::CodeGenFileType::ObjectFile, true))
      return failure("emitting an object");
    codegen.run(*translated);
    return std::string(object.begin(), object.end());
  }

private:
  void optimize(llvm::Module &module) {
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager graph;
    llvm::ModuleAnalysisManager modules;
    llvm::PassBuilder builder(machine.get());
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(graph);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, graph, modules);
    llvm::ModulePassManager passes;
    llvm::cantFail(
        builder.parsePassPipeline(passes, "function(sroa,early-cse,simplifycfg,instcombine<no-verify-"
                                          "fixpoint>,loop-mssa(loop-rotate,licm),loop(indvars),"
                                          "early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg)"));
    passes.run(module, modules);
  }

  const Processor &processor;
  MLIRContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
};

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().assumeVerified().useLocalScope().printGenericOpForm());
  return text;
}

std::string symbolFor(StringRef name, StringRef text, const Processor &processor) {
  llvm::SHA256 hash;
  hash.update(processor.cpu());
  hash.update(processor.featureString());
  hash.update(text);
  std::string symbol;
  for (char c : name)
    symbol += llvm::isAlnum(c) || c == '_' ? c : '_';
  return symbol + "_" + llvm::toHex(hash.final(), /*LowerCase=*/true).substr(0, 16);
}

} // namespace

llvm::Expected<KernelObject> compileKernel(ModuleOp module, const Processor &processor, StringRef symbol) {
  module.getContext()->appendDialectRegistry(registry());
  Worker worker(processor);
  llvm::Expected<std::string> object = worker.compile(module, symbol);
  if (!object)
    return object.takeError();
  return KernelObject{symbol.str(), std::move(*object)};
}

struct KernelCompiler::Implementation {
  struct Job {
    std::string text, symbol, object, error;
  };

  explicit Implementation(Processor given) : processor(std::move(given)) {}

  void run(Job &job, std::unique_ptr<Worker> &worker) {
    auto start = std::chrono::steady_clock::now();
    if (!worker)
      worker = std::make_unique<Worker>(processor);
    llvm::Expected<std::string> object = worker->compileText(job.text, job.symbol);
    if (object)
      job.object = std::move(*object);
    else
      job.error = llvm::toString(object.takeError());
    job.text.clear();
    job.text.shrink_to_fit();
    std::lock_guard<std::mutex> lock(mutex);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void work() {
    std::unique_ptr<Worker> worker;
    for (;;) {
      Job *job;
      {
        std::unique_lock<std::mutex> lock(mutex);
        wake.wait(lock, [&] { return stopping || !queue.empty(); });
        if (queue.empty())
          return;
        job = queue.front();
        queue.pop_front();
      }
      run(*job, worker);
      std::lock_guard<std::mutex> lock(mutex);
      --pending;
      idle.notify_all();
    }
  }

  Processor processor;
  std::map<std::string, std::string> symbols; // digest of the content -> symbol
  std::deque<Job> jobs;
  std::deque<Job *> queue;
  std::vector<std::thread> threads;
  std::unique_ptr<Worker> own;
  std::mutex mutex;
  std::condition_variable wake, idle;
  bool stopping = false;
  unsigned pending = 0, added = 0;
  double seconds = 0;
};

KernelCompiler::KernelCompiler(Processor processor, unsigned threads)
    : implementation(std::make_unique<Implementation>(std::move(processor))) {
  for (unsigned i = 0; i < threads; ++i)
    implementation->threads.emplace_back([state = implementation.get()] { state->work(); });
}

KernelCompiler::~KernelCompiler() {
  {
    std::lock_guard<std::mutex> lock(implementation->mutex);
    implementation->stopping = true;
    implementation->queue.clear();
  }
  implementation->wake.notify_all();
  for (std::thread &thread : implementation->threads)
    thread.join();
}

std::string KernelCompiler::add(ModuleOp module, StringRef name) {
  Implementation &state = *implementation;
  ++state.added;
  std::string invalid;
  {
    ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
      llvm::raw_string_ostream(invalid) << diagnostic << "\n";
      return success();
    });
    if (succeeded(verify(module)))
      invalid.clear();
  }
  std::string text = textOf(module);
  std::string symbol = symbolFor(name, text, state.processor);
  auto [known, inserted] = state.symbols.try_emplace(symbolFor("", text, state.processor), symbol);
  if (!inserted)
    return known->second;
  Implementation::Job *job;
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    state.jobs.push_back({std::move(text), symbol, "", ""});
    job = &state.jobs.back();
    if (!invalid.empty()) {
      job->error = "kernel " + symbol + " is invalid: " + invalid;
      return symbol;
    }
    if (!state.threads.empty()) {
      state.queue.push_back(job);
      ++state.pending;
    }
  }
  if (state.threads.empty())
    state.run(*job, state.own);
  else
    state.wake.notify_one();
  return symbol;
}

llvm::Expected<std::string> KernelCompiler::finish() {
  Implementation &state = *implementation;
  {
    std::unique_lock<std::mutex> lock(state.mutex);
    state.idle.wait(lock, [&] { return state.pending == 0; });
  }
  std::vector<KernelObject> objects;
  std::string errors;
  for (Implementation::Job &job : state.jobs) {
    if (!job.error.empty())
      errors += (errors.empty() ? "" : "\n") + job.error;
    objects.push_back({job.symbol, job.object});
  }
  if (!errors.empty())
    return llvm::createStringError(errors);
  llvm::sort(objects, [](const KernelObject &l, const KernelObject &r) { return l.symbol < r.symbol; });
  return linkKernels(objects);
}

const Processor &KernelCompiler::processor() const {
  return implementation->processor;
}

KernelCompiler::Statistics KernelCompiler::statistics() const {
  std::lock_guard<std::mutex> lock(implementation->mutex);
  return {implementation->added, unsigned(implementation->jobs.size()), implementation->seconds};
}

} // namespace colossal::cpu
