// KernelCompiler: MLIR's and LLVM's passes in process, on the threads of a pool, each with a context of its
// own.
//
// The pass lists are short on purpose: LLVM's stock -O3 unrolls our loops of static length completely, which
// costs compile time and, for kernels larger than the instruction cache, up to half the speed.
#include "colossal/Codegen/CPU/KernelCompiler.h"
#include "colossal/Codegen/CPU/KernelFunction.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Bytecode/BytecodeWriter.h"
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
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>

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

/// Has values of bf16 in which branches meet pass as their bits: on processors without instructions for
/// bf16, LLVM 22 lets vectors of it meet in f32, and calls a function that narrows them.
void meetAsBits(llvm::Module &module) {
  llvm::SmallVector<llvm::PHINode *> meetings;
  for (llvm::Function &function : module)
    for (llvm::BasicBlock &block : function)
      for (llvm::PHINode &phi : block.phis())
        if (phi.getType()->getScalarType()->isBFloatTy())
          meetings.push_back(&phi);
  for (llvm::PHINode *phi : meetings) {
    llvm::Type *bits = llvm::Type::getInt16Ty(module.getContext());
    if (auto *vector = llvm::dyn_cast<llvm::VectorType>(phi->getType()))
      bits = llvm::VectorType::get(bits, vector->getElementCount());
    llvm::PHINode *met = llvm::PHINode::Create(bits, phi->getNumIncomingValues(), "", phi->getIterator());
    llvm::IRBuilder<> b(phi->getParent(), phi->getParent()->getFirstInsertionPt());
    phi->replaceAllUsesWith(b.CreateBitCast(met, phi->getType()));
    llvm::DenseMap<llvm::BasicBlock *, llvm::Value *> sent; // a switch may come from one block several times
    for (auto [value, block] : llvm::zip_equal(phi->incoming_values(), phi->blocks())) {
      llvm::Value *&own = sent[block];
      if (!own) {
        b.SetInsertPoint(block->getTerminator());
        own = b.CreateBitCast(value, bits);
      }
      met->addIncoming(own, block);
    }
    phi->eraseFromParent();
  }
}

/// One thread's compiler: contexts are reused between kernels.
class Worker {
public:
  explicit Worker(const Processor &processor)
      : processor(processor), context(registry(), MLIRContext::Threading::DISABLED),
        machine(createTargetMachine(processor)) {
    context.disableMultithreading(); // what keeps attributes and types apart takes locks until it hears so
    KernelFunction::loadDialects(context);
    context.loadDialect<LLVM::LLVMDialect>();
  }

  /// The module comes as bytecode: it was made in another context.
  llvm::Expected<std::string> compile(StringRef bytecode, StringRef symbol) {
    std::string diagnostics;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      llvm::raw_string_ostream(diagnostics) << diagnostic << "\n";
      return success();
    });
    ParserConfig config(&context, /*verifyAfterParse=*/false);
    Block block;
    if (failed(readBytecodeFile(llvm::MemoryBufferRef(bytecode, symbol), &block, config)) || block.empty())
      return llvm::createStringError("kernel " + symbol.str() + " cannot be read back: " + diagnostics);
    if (failed(verify(&block.front())))
      return llvm::createStringError("kernel " + symbol.str() + " is invalid: " + diagnostics);
    return compile(cast<ModuleOp>(block.front()), symbol);
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
    if (!processor.bfloatConversion)
      meetAsBits(*translated);

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

std::string bytecodeOf(ModuleOp module) {
  std::string bytes;
  llvm::raw_string_ostream stream(bytes);
  (void)writeBytecodeToFile(module, stream); // fails for versions that are asked for only
  return bytes;
}

std::string digestOf(StringRef bytecode, const Processor &processor) {
  llvm::SHA256 hash;
  hash.update(processor.cpu());
  hash.update(processor.featureString());
  hash.update(bytecode);
  return llvm::toHex(hash.final(), /*LowerCase=*/true).substr(0, 16);
}

std::string symbolFor(StringRef name, StringRef digest) {
  std::string symbol;
  for (char c : name)
    symbol += llvm::isAlnum(c) || c == '_' ? c : '_';
  return symbol + "_" + digest.str();
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

/// Workers that are made before any kernel comes; small models have few kernels.
constexpr unsigned kWorkersAhead = 4;

struct KernelCompiler::Implementation {
  struct Job {
    Job(std::string bytecode, std::string symbol, bool isWanted)
        : bytecode(std::move(bytecode)), symbol(std::move(symbol)), isWanted(isWanted) {}
    std::string bytecode, symbol, object, error;
    std::atomic<bool> isWanted; ///< false: nobody has added it yet
  };

  Implementation(Processor given, unsigned threads) : processor(std::move(given)) {
    if (!threads)
      return;
    pool = std::make_unique<llvm::StdThreadPool>(llvm::hardware_concurrency(threads));
    // Kernels come later: what a worker takes to begin goes on beside what makes them.
    for (unsigned i = 0; i < std::min(threads, kWorkersAhead); ++i)
      pool->async([this] {
        if (stopping)
          return;
        auto worker = std::make_unique<Worker>(processor);
        std::lock_guard<std::mutex> lock(mutex);
        idle.push_back(std::move(worker));
      });
  }

  /// A worker that nobody uses; there come to be as many as threads.
  std::unique_ptr<Worker> takeWorker() {
    std::lock_guard<std::mutex> lock(mutex);
    if (idle.empty())
      return std::make_unique<Worker>(processor);
    std::unique_ptr<Worker> worker = std::move(idle.back());
    idle.pop_back();
    return worker;
  }

  /// Queues the module that has the content `bytecode`.
  Job &submit(std::string bytecode, const std::string &symbol, bool isWanted) {
    Job &job = jobs.emplace_back(std::move(bytecode), symbol, isWanted);
    if (pool)
      pool->async([this, &job] { run(job); });
    else
      run(job);
    return job;
  }

  void run(Job &job) {
    if (stopping || (isComplete && !job.isWanted))
      return;
    auto start = std::chrono::steady_clock::now();
    std::unique_ptr<Worker> worker = takeWorker();
    llvm::Expected<std::string> object = worker->compile(job.bytecode, job.symbol);
    if (object)
      job.object = std::move(*object);
    else
      job.error = llvm::toString(object.takeError());
    job.bytecode.clear();
    job.bytecode.shrink_to_fit();
    std::lock_guard<std::mutex> lock(mutex);
    idle.push_back(std::move(worker));
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Processor processor;
  std::map<std::string, std::string> symbols; // digest of the content -> symbol
  std::deque<Job> jobs;
  std::map<std::string, Job *> ahead; // by symbol, of those that came before they were added
  std::vector<std::unique_ptr<Worker>> idle;
  std::mutex mutex;
  std::atomic<bool> stopping = false;   // what waits is not compiled any more
  std::atomic<bool> isComplete = false; // nothing is added any more
  unsigned added = 0;
  double seconds = 0;
  std::unique_ptr<llvm::StdThreadPool>
      pool; // null: all on the caller's thread; ends before what its tasks use
};

KernelCompiler::KernelCompiler(Processor processor, unsigned threads)
    : implementation(std::make_unique<Implementation>(std::move(processor), threads)) {}

KernelCompiler::~KernelCompiler() {
  implementation->stopping = true;
}

std::string KernelCompiler::add(ModuleOp module, StringRef name) {
  Implementation &state = *implementation;
  ++state.added;
  std::string bytecode = bytecodeOf(module), digest = digestOf(bytecode, state.processor);
  auto [known, inserted] = state.symbols.try_emplace(digest, symbolFor(name, digest));
  if (!inserted)
    return known->second;
  const std::string &symbol = known->second;
  if (auto early = state.ahead.find(symbol); early != state.ahead.end())
    early->second->isWanted = true;
  else
    state.submit(std::move(bytecode), symbol, true);
  return symbol;
}

bool KernelCompiler::compilesAhead() const {
  return implementation->pool != nullptr;
}

std::string KernelCompiler::addAhead(ModuleOp module, StringRef name) {
  Implementation &state = *implementation;
  if (!compilesAhead())
    return "";
  std::string bytecode = bytecodeOf(module), digest = digestOf(bytecode, state.processor);
  std::string symbol = symbolFor(name, digest);
  if (!state.ahead.count(symbol) && !state.symbols.count(digest))
    state.ahead[symbol] = &state.submit(std::move(bytecode), symbol, false);
  return digest;
}

std::optional<std::string> KernelCompiler::addAgain(StringRef mark, StringRef name) {
  Implementation &state = *implementation;
  const std::string digest = mark.str();
  auto known = state.symbols.find(digest);
  if (known == state.symbols.end()) {
    std::string symbol = symbolFor(name, digest);
    auto early = state.ahead.find(symbol);
    if (early == state.ahead.end())
      return std::nullopt;
    early->second->isWanted = true;
    known = state.symbols.emplace(digest, std::move(symbol)).first;
  }
  ++state.added;
  return known->second;
}

llvm::Expected<std::string> KernelCompiler::finish() {
  Implementation &state = *implementation;
  state.isComplete = true;
  if (state.pool)
    state.pool->wait();
  std::vector<KernelObject> objects;
  std::string errors;
  for (Implementation::Job &job : state.jobs) {
    if (!job.isWanted)
      continue;
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
  auto wanted = llvm::count_if(implementation->jobs, [](const auto &job) { return job.isWanted.load(); });
  return {implementation->added, unsigned(wanted), implementation->seconds};
}

} // namespace colossal::cpu
