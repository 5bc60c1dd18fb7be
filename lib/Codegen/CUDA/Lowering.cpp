// One kernel: MLIR's and LLVM's passes, down to PTX.
#include "PtxCompiler.h"

#include "BlockTeam.h"
#include "Toolkit.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"

#include <mutex>

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace {

/// Threads of a kernel that are to fit a multiprocessor at a time, so that some compute while others wait for
/// memory: it may take 128 registers for each. The assembler is held to it, and test/Device/kernels.py looks.
constexpr int64_t residentThreads = 512;

/// Functions that GPUs have no instruction for become calls of libdevice.
struct CallLibdevice : PassWrapper<CallLibdevice, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CallLibdevice)
  void runOnOperation() override {
    LLVMTypeConverter converter(&getContext());
    RewritePatternSet patterns(&getContext());
    populateLibDeviceConversionPatterns(converter, patterns);
    ConversionTarget target(getContext());
    target.markUnknownOpDynamicallyLegal([](Operation *op) {
      return !isa<math::MathDialect>(op->getDialect()) ||
             isa<math::FmaOp, math::SqrtOp, math::FloorOp, math::CeilOp, math::RoundEvenOp, math::TruncOp,
                 math::AbsFOp, math::AbsIOp, math::CopySignOp, math::CountLeadingZerosOp,
                 math::CountTrailingZerosOp, math::CtPopOp>(op);
    });
    if (failed(applyPartialConversion(getOperation(), target, std::move(patterns))))
      signalPassFailure();
  }
};

LogicalResult lowerToLLVMDialect(ModuleOp module) {
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  pm.enableVerifier(false);
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addNestedPass<func::FuncOp>(createLoopInvariantCodeMotionPass());
  pm.addPass(std::make_unique<CallLibdevice>());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions functions;
  functions.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(functions));
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createCSEPass());
  return pm.run(module);
}

std::unique_ptr<llvm::TargetMachine> createTargetMachine(const Chip &chip) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  std::string error;
  llvm::Triple target(nvidia::triple);
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(target, error);
  if (!found)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  return std::unique_ptr<llvm::TargetMachine>(found->createTargetMachine(
      target, chip.name, chip.feature, options, std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Default));
}

/// Brings in what the module calls of libdevice.
llvm::Error linkLibdevice(llvm::Module &module) {
  std::string needed;
  for (const llvm::Function &function : module)
    if (function.isDeclaration() && function.getName().starts_with("__nv_"))
      needed += (needed.empty() ? "" : ", ") + function.getName().str();
  if (needed.empty())
    return llvm::Error::success();
  const std::string path = findLibdevice();
  if (path.empty())
    return llvm::createStringError("it needs libdevice (" + needed +
                                   "), which is part of the CUDA toolkit: " + installToolkit);
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> library = llvm::parseIRFile(path, diagnostic, module.getContext());
  if (!library)
    return llvm::createStringError(path + " cannot be read: " + diagnostic.getMessage().str());
  library->setTargetTriple(module.getTargetTriple());
  library->setDataLayout(module.getDataLayout());
  if (llvm::Linker::linkModules(module, std::move(library), llvm::Linker::LinkOnlyNeeded))
    return llvm::createStringError(path + " cannot be linked");
  return llvm::Error::success();
}

void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  llvm::ModulePassManager passes;
  // What libdevice asks about the compiler is answered first; its functions are put in place of their calls.
  // That arguments are only read makes loads of them cached ones, and how they are aligned, accesses wide
  // ones.
  llvm::cantFail(builder.parsePassPipeline(
      passes, "nvvm-reflect,always-inline,globaldce,"
              "function(sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,"
              "loop-mssa(loop-rotate,licm),loop(indvars),early-cse<memssa>,"
              "instcombine<no-verify-fixpoint>,simplifycfg,infer-alignment),cgscc(function-attrs)"));
  passes.run(module, modules);
}

} // namespace

llvm::Expected<std::string> nvidia::compileKernel(ModuleOp module, const Chip &chip, StringRef symbol) {
  static const DialectRegistry registry = [] {
    DialectRegistry result;
    registerBuiltinDialectTranslation(result);
    registerLLVMDialectTranslation(result);
    registerNVVMDialectTranslation(result);
    return result;
  }();
  module.getContext()->appendDialectRegistry(registry);
  std::string diagnostics;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    llvm::raw_string_ostream(diagnostics) << diagnostic << "\n";
    return success();
  });
  auto failure = [&](const llvm::Twine &what) {
    return llvm::createStringError("kernel " + symbol.str() + ": " + what.str() +
                                   (diagnostics.empty() ? "" : ": " + diagnostics));
  };
  const int64_t threads = module->getAttrOfType<IntegerAttr>(threadsName).getInt();
  auto stated = module->getAttrOfType<IntegerAttr>(residentName);
  const int64_t resident = stated ? stated.getInt() : std::max<int64_t>(1, residentThreads / threads);
  if (failed(lowerToLLVMDialect(module)))
    return failure("lowering to the LLVM dialect failed");
  std::unique_ptr<llvm::TargetMachine> machine = createTargetMachine(chip);
  if (!machine)
    return failure("this LLVM makes no code for NVIDIA's GPUs");
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated = translateModuleToLLVMIR(module, context, symbol);
  if (!translated)
    return failure("translation to LLVM IR failed");
  translated->setTargetTriple(llvm::Triple(nvidia::triple));
  translated->setDataLayout(machine->createDataLayout());
  if (llvm::Error error = linkLibdevice(*translated))
    return failure(llvm::toString(std::move(error)));
  // Kernels share one text: what is a kernel's own has its name.
  for (llvm::GlobalValue &value : translated->global_values())
    if (!value.isDeclaration() && value.getName() != entryName) {
      value.setName(value.getName() + "_" + symbol);
      value.setLinkage(llvm::GlobalValue::InternalLinkage);
    }
  for (llvm::Function &function : *translated)
    if (!function.isDeclaration())
      function.setDoesNotThrow();
  llvm::Function *entry = translated->getFunction(entryName);
  entry->setName(symbol);
  entry->setCallingConv(llvm::CallingConv::PTX_Kernel);
  entry->addFnAttr("nvvm.maxntid", std::to_string(threads));
  if (threads > 1)
    entry->addFnAttr("nvvm.minctasm", std::to_string(resident));
  for (llvm::Function &function : *translated)
    if (!function.isDeclaration() && &function != entry) {
      function.removeFnAttr(llvm::Attribute::NoInline);
      function.addFnAttr(llvm::Attribute::AlwaysInline);
    }
  optimize(*translated, *machine);

  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, stream, nullptr, llvm::CodeGenFileType::AssemblyFile, true))
    return failure("emitting PTX failed");
  codegen.run(*translated);
  // The lines that open a text stand once in front of all kernels.
  std::string body;
  for (llvm::StringRef rest(text.data(), text.size()); !rest.empty();) {
    auto [line, next] = rest.split('\n');
    rest = next;
    if (!line.ltrim().starts_with("//") && !line.starts_with(".version") && !line.starts_with(".target") &&
        !line.starts_with(".address_size") && !line.trim().empty())
      body += line.str() + "\n";
  }
  return body;
}

std::string nvidia::ptxHeader(const Chip &chip) {
  const unsigned version = std::stoul(chip.feature.substr(4)); // "+ptx80"
  return "//\n.version " + std::to_string(version / 10) + "." + std::to_string(version % 10) + "\n.target " +
         chip.name + "\n.address_size 64\n";
}
