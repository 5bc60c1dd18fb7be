// The part of cuDNN's ABI that the runtime calls, declared here so that it builds where the library is not
// installed: its graph API, of version 9.8 or newer. test/Emulation/cudnn/AbiTest.cpp compares it with the
// vendor's header where that is found.
//
// Names are the vendor's without their prefix. A descriptor of the library is an untyped pointer, and what
// its attributes hold is said by numbers; both stay as they are.
#ifndef COLOSSAL_RUNTIME_CUDA_CUDNN_ABI_H
#define COLOSSAL_RUNTIME_CUDA_CUDNN_ABI_H

#include "runtime/cuda/Abi.h"

namespace colossal::cudnn {

using cuda::Stream;
using Handle = struct CudnnHandle *;
using RawDescriptor = void *;

/// Thousands are the kind of error; what is more exact differs between versions.
enum Result : unsigned {
  Success = 0,
  NotInitialized = 1001,
  BadParam = 2000,
  BadParamNullPointer = 2002,
  BadParamMisalignedPointer = 2003,
  BadParamNotFinalized = 2004,
  BadParamSizeInsufficient = 2006,
  BadParamShapeMismatch = 2008,
  BadParamAttributeType = 2010,
  NotSupported = 3000,
  InternalError = 4000,
  HostAllocationFailed = 4003,
  DeviceAllocationFailed = 4004,
  ExecutionFailed = 5000
};

enum DataType : unsigned { Float = 0, Double = 1, Half = 2, Int32 = 4, BFloat16 = 9, Boolean = 11 };
enum ConvolutionMode : unsigned { CrossCorrelation = 1 };
enum PointwiseMode : unsigned {
  PointwiseAdd = 0,
  PointwiseMultiply = 1,
  PointwiseReluForward = 100,
  PointwiseGreaterEqual = 303,
  PointwiseIndex = 501,       // of an element along an axis
  PointwiseBinarySelect = 601 // x where t is true, else b
};
enum NanPropagation : unsigned { PropagateNan = 1 };
enum HeuristicMode : unsigned { HeuristicFallback = 2, HeuristicA = 3 };

/// How an engine's numbers come about.
enum NumericalNote : unsigned {
  NoteTensorCore = 0, // of f32: the factors are rounded to tf32
  NoteDownConvertInputs = 1,
  NoteReducedPrecisionReduction = 2,
  NoteFft = 3,
  NoteNondeterministic = 4,
  NoteWinograd = 5,
  NoteWinogradTile4x4 = 6,
  NoteWinogradTile6x6 = 7,
  NoteWinogradTile13x13 = 8,
  NoteStrictNan = 9
};
enum BehaviorNote : unsigned { NoteRuntimeCompilation = 0 };

enum DescriptorType : unsigned {
  PointwiseDescriptor = 0,
  ConvolutionDescriptor = 1,
  EngineDescriptor = 2,
  EngineConfigDescriptor = 3,
  EngineHeuristicDescriptor = 4,
  ExecutionPlanDescriptor = 5,
  KnobChoiceDescriptor = 7,
  ConvolutionForwardDescriptor = 10,
  PointwiseOperationDescriptor = 13,
  OperationGraphDescriptor = 15,
  VariantPackDescriptor = 16,
  TensorDescriptor = 17,
  DevicePropertiesDescriptor = 38,
  AttentionForwardDescriptor = 41
};

/// What the elements of an attribute are.
enum AttributeType : unsigned {
  TypeHandle = 0,
  TypeDataType = 1,
  TypeBoolean = 2,
  TypeInt64 = 3,
  TypeFloat = 4,
  TypeDouble = 5,
  TypeVoidPointer = 6,
  TypeConvolutionMode = 7,
  TypeHeuristicMode = 8,
  TypeKnobType = 9,
  TypeNanPropagation = 10,
  TypeNumericalNote = 11,
  TypePointwiseMode = 14,
  TypeDescriptor = 15,
  TypeBehaviorNote = 19,
  TypeChar = 24
};

enum Attribute : unsigned {
  PointwiseModeAttribute = 0,
  PointwisePrecision = 1,
  PointwiseNanPropagation = 2,
  PointwiseAxis = 9,
  ConvolutionPrecision = 100,
  ConvolutionModeAttribute = 101,
  ConvolutionDilations = 102,
  ConvolutionStrides = 103,
  ConvolutionPostPaddings = 104,
  ConvolutionPrePaddings = 105,
  ConvolutionSpatialDims = 106,
  HeuristicModeAttribute = 200,
  HeuristicGraph = 201,
  HeuristicResults = 202,
  HeuristicDeviceProperties = 204,
  EngineConfigEngine = 300,
  EngineConfigKnobChoices = 302,
  PlanEngineConfig = 401,
  PlanWorkspaceSize = 402,
  PlanDeviceProperties = 407,
  KnobChoiceType = 600,
  KnobChoiceValue = 601,
  ForwardAlpha = 700,
  ForwardBeta = 701,
  ForwardConvolution = 702,
  ForwardW = 703,
  ForwardX = 704,
  ForwardY = 705,
  PointwiseOperator = 750,
  PointwiseX = 751,
  PointwiseB = 752,
  PointwiseY = 753,
  PointwiseT = 758,
  GraphOperations = 801,
  TensorByteAlignment = 900,
  TensorDataType = 901,
  TensorDimensions = 902,
  TensorStrides = 903,
  TensorUniqueId = 906,
  TensorIsVirtual = 907,
  TensorIsByValue = 908,
  PackUniqueIds = 1000,
  PackDataPointers = 1001,
  PackWorkspace = 1003,
  EngineGlobalIndex = 1301,
  EngineNumericalNotes = 1303,
  EngineBehaviorNotes = 1305,
  DevicePropertiesHandle = 2701,
  DevicePropertiesJson = 2702,
  AttentionQ = 2800,
  AttentionK = 2801,
  AttentionV = 2802,
  AttentionO = 2803,
  AttentionSubgraph = 2811, // of the scores; they and what becomes of them are virtual
  AttentionSubgraphInput = 2812,
  AttentionSubgraphOutput = 2813
};

/// The first version whose graphs need no handle, and the first whose attention takes operations on the
/// scores.
constexpr size_t leastVersion = 90800, leastVersionOfAttention = 92100;

// What is called, by the names under which the library exports it: X(return type, symbol, arguments).
#define COLOSSAL_CUDNN(X)                                                                                    \
  X(size_t, cudnnGetVersion, ())                                                                             \
  X(const char *, cudnnGetErrorString, (Result))                                                             \
  X(void, cudnnGetLastErrorString, (char *, size_t))                                                         \
  X(Result, cudnnCreate, (Handle *))                                                                         \
  X(Result, cudnnDestroy, (Handle))                                                                          \
  X(Result, cudnnSetStream, (Handle, Stream))                                                                \
  X(Result, cudnnBackendCreateDescriptor, (DescriptorType, RawDescriptor *))                                 \
  X(Result, cudnnBackendDestroyDescriptor, (RawDescriptor))                                                  \
  X(Result, cudnnBackendSetAttribute, (RawDescriptor, Attribute, AttributeType, int64_t, const void *))      \
  X(Result, cudnnBackendGetAttribute, (RawDescriptor, Attribute, AttributeType, int64_t, int64_t *, void *)) \
  X(Result, cudnnBackendFinalize, (RawDescriptor))                                                           \
  X(Result, cudnnBackendExecute, (Handle, RawDescriptor, RawDescriptor))

/// Addresses of the library's functions.
struct Functions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration's parts
#define COLOSSAL_CUDNN_MEMBER(type, symbol, arguments) type(*symbol) arguments = nullptr;
  COLOSSAL_CUDNN(COLOSSAL_CUDNN_MEMBER)
#undef COLOSSAL_CUDNN_MEMBER
};

} // namespace colossal::cudnn

#endif // COLOSSAL_RUNTIME_CUDA_CUDNN_ABI_H
