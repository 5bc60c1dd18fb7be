// Tiles of places: what their windows see comes into shared memory, and a thread slides over it in registers.
//
// A thread takes some columns next to each other, of one row or two, of all out channels of one group, so
// that what it has read of the input serves several of its sums. Neighbouring threads take what lies next to
// each other in the result: columns, or channels where these lie innermost. Both ways shared memory is read
// without bank conflicts, and memory in whole lines.
#include "GroupedBlock.h"
#include "TensorCores.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <map>
#include <numeric>
#include <set>

using namespace mlir;
using namespace colossal;
using namespace colossal::nvidia;

namespace {

constexpr unsigned sharedSpace = 3;
/// Bytes of shared memory of a block: four fit a multiprocessor of every generation.
constexpr int64_t sharedLimit = 36 << 10;
constexpr int64_t widestAccess = 16;
/// Sums of a thread; what it may hold of sums, taps and input at once, so that the assembler, which reads
/// ahead as far as code goes without a loop, does not run out of registers; and the columns of a window that
/// are written one after another where not all of it is.
constexpr int64_t maxSums = 32, maxHeld = 72, mostColumns = 8;

/// How many numbers a * i + b * j there are, for i and j below these counts.
int64_t countPlaces(int64_t a, int64_t iCount, int64_t b, int64_t jCount) {
  std::set<int64_t> places;
  for (int64_t i = 0; i < iCount; ++i)
    for (int64_t j = 0; j < jCount; ++j)
      places.insert(a * i + b * j);
  return static_cast<int64_t>(places.size());
}

int64_t powerBelow(int64_t most, int64_t end) {
  int64_t power = 1;
  while (2 * power <= most && power < end)
    power *= 2;
  return power;
}

/// How a convolution is cut into blocks and threads.
struct Tiling {
  bool channelsInner = false;                ///< neighbouring threads take neighbouring groups, not columns
  int64_t across = 1, down = 1;              ///< columns and rows of places of a thread
  bool isUnrolled = true;                    ///< over the whole window
  int64_t windowColumns = 1;                 ///< else, over so many columns of a row
  int64_t columns = 1, rows = 1, groups = 1; ///< threads of a block along each
  int64_t copied = 1;                        ///< elements that are copied to shared memory at once
  int64_t lead = 0;                          ///< elements before the first window's in a row there
  int64_t stagedRows = 1, stagedColumns = 1; ///< there, of one group
  bool isStaged = true;                      ///< false: windows are read from memory itself

  explicit Tiling(const GroupedSpec &spec) : spec(spec), bytes(kernel::elementBytes(spec.type)) {
    channelsInner = spec.groups > 1 && spec.output[1] == 1 && spec.output[3] != 1;
    chooseThread();
    chooseBlock();
    while (!fits() && groups * rows * columns > 1)
      shrink();
    // A block of which most threads have nothing to do is worse than windows that are read again and again.
    const int64_t wanted = std::min<int64_t>(32, spec.groups * rowItems() * columnItems());
    if (!fits() || groups * rows * columns < wanted) {
      isStaged = false;
      chooseBlock();
    }
  }

  int64_t items() const { return groups * rows * columns; }
  int64_t rowItems() const { return llvm::divideCeil(spec.places[0], down); }
  int64_t columnItems() const { return llvm::divideCeil(spec.places[1], across); }
  int64_t groupBlocks() const { return llvm::divideCeil(spec.groups, groups); }
  int64_t rowBlocks() const { return llvm::divideCeil(rowItems(), rows); }
  int64_t columnBlocks() const { return llvm::divideCeil(columnItems(), columns); }
  int64_t tiles() const { return spec.images * groupBlocks() * rowBlocks() * columnBlocks(); }
  /// Strides of group, row and column in shared memory.
  std::array<int64_t, 3> stagedStrides() const {
    if (channelsInner)
      return {1, stagedColumns * groups, groups};
    return {stagedRows * stagedColumns, stagedColumns, 1};
  }
  int64_t stagedElements() const { return groups * stagedRows * stagedColumns; }

private:
  void chooseThread() {
    across = channelsInner ? powerBelow(4, spec.places[1])
                           : powerBelow(std::max<int64_t>(4, widestAccess / bytes), spec.places[1]);
    while (across > 1 && across * spec.outChannels > maxSums)
      across /= 2;
    // Two rows share what their windows both see.
    down = spec.places[0] > 1 && spec.window[0] > 2 && 2 * across * spec.outChannels <= 8 ? 2 : 1;
    if (!fitsThread(spec.window[0], spec.window[1]))
      down = 1;
    isUnrolled = fitsThread(spec.window[0], spec.window[1]);
    windowColumns = isUnrolled ? spec.window[1] : std::min(spec.window[1], mostColumns);
    while (!isUnrolled && windowColumns > 1 && !fitsThread(1, windowColumns))
      --windowColumns;
  }

  /// Whether a thread can hold what it needs for a part of the window.
  bool fitsThread(int64_t ofRows, int64_t ofColumns) const {
    if (spec.outChannels * ofRows * ofColumns > maxHeld)
      return false;
    const int64_t seen = countPlaces(spec.stride[0], down, spec.dilation[0], ofRows) *
                         countPlaces(spec.stride[1], across, spec.dilation[1], ofColumns);
    return spec.outChannels * (down * across + ofRows * ofColumns) + seen <= maxHeld;
  }

  void chooseBlock() {
    auto share = [](int64_t all, int64_t most) {
      most = std::max<int64_t>(1, most);
      return llvm::divideCeil(all, llvm::divideCeil(all, most));
    };
    const int64_t most = 128, warp = 32;
    if (channelsInner) {
      groups = share(spec.groups, warp);
      columns = share(columnItems(), std::min<int64_t>(4, most / groups));
      rows = share(rowItems(), most / (groups * columns));
      columns = share(columnItems(), most / (groups * rows));
      groups = share(spec.groups, most / (rows * columns));
    } else {
      columns = share(columnItems(), warp);
      rows = share(rowItems(), most / columns);
      groups = share(spec.groups, most / (columns * rows));
      columns = share(columnItems(), most / (rows * groups));
    }
    chooseStaging();
  }

  /// Fewer channels first, as nothing is read again for it; then what makes borders relatively largest last.
  void shrink() {
    int64_t &most = !channelsInner && groups > 1  ? groups
                    : rows >= columns && rows > 1 ? rows
                    : columns > 1                 ? columns
                                                  : groups;
    most = llvm::divideCeil(most, 2);
    chooseStaging();
  }

  void chooseStaging() {
    auto extent = [&](unsigned d, int64_t count) {
      return (count - 1) * spec.stride[d] + (spec.window[d] - 1) * spec.dilation[d] + 1;
    };
    stagedRows = extent(0, rows * down);
    const int64_t seen = extent(1, columns * across);
    copied = widestAccess / bytes;
    while (copied > 1 && !canCopy(copied))
      copied /= 2;
    lead = channelsInner ? 0 : (copied - spec.pad[1] % copied) % copied;
    if (lead < 0)
      lead += copied;
    stagedColumns = channelsInner ? seen : llvm::alignTo(lead + seen, widestAccess / bytes);
  }

  /// Whether so many elements, the first of which lies at a multiple of as many, always lie next to each
  /// other both in memory and in shared memory, and are all inside the input or all outside.
  bool canCopy(int64_t count) const {
    const int64_t ofGroup = spec.input[1] * spec.inChannels;
    auto isMultiple = [&](int64_t value) { return value % count == 0; };
    if (!isMultiple(spec.inputAlignment / bytes) || spec.inputAlignment < bytes ||
        !isMultiple(spec.input[0]) || !isMultiple(spec.input[2]))
      return false;
    if (channelsInner)
      return ofGroup == 1 && spec.inChannels == 1 && isMultiple(spec.groups) && isMultiple(groups) &&
             isMultiple(spec.input[3]);
    return spec.input[3] == 1 && isMultiple(spec.input[1]) && isMultiple(spec.size[1]) &&
           isMultiple(columns * across * spec.stride[1]);
  }

  bool fits() const { return stagedElements() * bytes <= sharedLimit; }

  const GroupedSpec &spec;
  const int64_t bytes;
};

class Generator : GroupedBlock {
public:
  Generator(MLIRContext &context, const BlockTeam &team, const GroupedSpec &spec)
      : GroupedBlock(context, team, spec), tiling(spec), bytes(kernel::elementBytes(spec.type)),
        held(spec.type.isBF16() ? Type(b.getI16Type()) : spec.type), copies(b, loc, spec.type) {}

  kernel::GeneratedKernel run() {
    if (tiling.isStaged)
      shared = sharedArray();
    return emit(tiling.tiles(), [&](Value tile) { emitTile(tile); });
  }

private:
  Value sharedArray() {
    auto module = b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
    LLVM::GlobalOp global;
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(module.getBody());
      global = LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(held, tiling.stagedElements()),
                                      /*isConstant=*/false, LLVM::Linkage::Internal, "windows", Attribute(),
                                      /*alignment=*/widestAccess, sharedSpace);
    }
    return LLVM::AddressOfOp::create(b, loc, global);
  }

  void emitTile(Value tile) {
    SmallVector<Value> at = memory.delinearize(
        tile, {spec.images, tiling.groupBlocks(), tiling.rowBlocks(), tiling.columnBlocks()});
    image = at[0];
    firstGroup = memory.mulConstant(at[1], tiling.groups);
    firstRow = memory.mulConstant(at[2], tiling.rows * tiling.down);
    firstColumn = memory.mulConstant(at[3], tiling.columns * tiling.across);
    // Threads without a place of their own do as the last one does.
    Value item = memory.minConstant(thread, tiling.items() - 1);
    SmallVector<Value> own;
    if (tiling.channelsInner) {
      own = memory.delinearize(item, {tiling.rows, tiling.columns, tiling.groups});
      std::rotate(own.begin(), own.begin() + 2, own.end());
    } else {
      own = memory.delinearize(item, {tiling.groups, tiling.rows, tiling.columns});
    }
    ownGroup = own[0];
    ownRow = memory.mulConstant(own[1], tiling.down);
    ownColumn = memory.mulConstant(own[2], tiling.across);
    group = memory.add(firstGroup, ownGroup);
    hasGroup = below(group, spec.groups);
    knownGroup = memory.minConstant(group, spec.groups - 1);

    SmallVector<Value> sums;
    for (int64_t m = 0; m < spec.outChannels; ++m)
      sums.append(tiling.down * tiling.across, biasOf(outChannel(knownGroup, m)));
    sums = loop(spec.inChannels, sums, [&](Value channel, ValueRange carried) {
      if (tiling.isStaged) {
        stage(channel);
        NVVM::Barrier0Op::create(b, loc);
      }
      SmallVector<Value> next = overWindow(channel, carried);
      if (tiling.isStaged)
        NVVM::Barrier0Op::create(b, loc); // before the next channel or tile takes the place of this one
      return next;
    });
    storeSums(sums);
  }

  Value outChannel(Value group, int64_t m) {
    return memory.addConstant(memory.mulConstant(group, spec.outChannels), m);
  }
  Value inputBase(Value group, Value channel) {
    return memory.linearize({image, group, channel},
                            {spec.input[0], spec.input[1] * spec.inChannels, spec.input[1]});
  }

  /// What the windows of the block's places see of that channel of each group; zeros where the input ends.
  void stage(Value channel) {
    const int64_t copied = tiling.copied,
                  inner = (tiling.channelsInner ? tiling.groups : tiling.stagedColumns);
    const int64_t runs = llvm::divideCeil(inner, copied);
    // Neighbouring threads read what lies next to each other in memory.
    const bool groupsLast =
        tiling.channelsInner
            ? copied > 1 || std::abs(spec.input[1]) < std::abs(spec.input[3])
            : copied == 1 && spec.groups > 1 && std::abs(spec.input[1]) < std::abs(spec.input[3]);
    const int64_t groupRuns = tiling.channelsInner ? runs : tiling.groups,
                  columnRuns = tiling.channelsInner ? tiling.stagedColumns : runs;
    SmallVector<int64_t> sizes = groupsLast ? SmallVector<int64_t>{tiling.stagedRows, columnRuns, groupRuns}
                                            : SmallVector<int64_t>{groupRuns, tiling.stagedRows, columnRuns};
    const int64_t all = groupRuns * columnRuns * tiling.stagedRows;
    auto copyRun = [&](Value run) {
      SmallVector<Value> at = memory.delinearize(run, sizes);
      if (groupsLast)
        std::rotate(at.begin(), at.begin() + 2, at.end());
      Value ofBlock = tiling.channelsInner ? memory.mulConstant(at[0], copied) : at[0], inRow = at[1],
            inColumn = tiling.channelsInner ? at[2] : memory.mulConstant(at[2], copied);
      Value from = memory.add(firstGroup, ofBlock),
            row = memory.add(memory.addConstant(memory.mulConstant(firstRow, spec.stride[0]), -spec.pad[0]),
                             inRow),
            column = memory.add(memory.addConstant(memory.mulConstant(firstColumn, spec.stride[1]),
                                                   -spec.pad[1] - tiling.lead),
                                inColumn);
      Value exists =
          both(both(inside(row, spec.size[0]), inside(column, spec.size[1])), below(from, spec.groups));
      Value offset = memory.add(inputBase(from, channel),
                                memory.linearize({row, column}, {spec.input[2], spec.input[3]}));
      offset = select(exists, offset, memory.constant(0));
      copyElements(memory.linearize({ofBlock, inRow, inColumn}, tiling.stagedStrides()), offset, exists);
    };
    if (all <= 4 * threads) {
      for (int64_t first = 0; first < all; first += threads) {
        Value run = memory.addConstant(thread, first);
        all - first >= threads ? copyRun(run) : when(below(run, all), [&] { copyRun(run); });
      }
    } else {
      auto op = scf::ForOp::create(b, loc, thread, memory.constant(all), memory.constant(threads));
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(op.getBody());
      copyRun(op.getInductionVar());
    }
    if (copied * bytes >= 4) {
      copies.closeGroup();
      copies.waitForGroups(0);
    }
  }

  void copyElements(Value to, Value from, Value exists) {
    Value place = memory.address(shared, held, to);
    Value source = memory.address(frame->pointer(Input), spec.type, from);
    if (tiling.copied * bytes >= 4)
      return copies.copy(place, source, tiling.copied * bytes, exists);
    auto branch = scf::IfOp::create(b, loc, TypeRange{held}, exists, /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(&branch.getThenRegion().front());
      scf::YieldOp::create(b, loc, memory.load(source, held, 1));
      b.setInsertionPointToStart(&branch.getElseRegion().front());
      scf::YieldOp::create(b, loc, memory.constantLike(held, 0));
    }
    LLVM::StoreOp::create(b, loc, branch.getResult(0), place);
  }

  /// The part of the input that a thread slides over: `row` and `column` count from its first place's first
  /// tap.
  struct Strip {
    Value base;                    ///< offset in shared memory, or in the input
    Value row, column;             ///< of the input, where it is read from there
    int64_t aligned = 1, lead = 0; ///< in shared memory: base + lead elements are a multiple of `aligned`
    std::map<std::pair<int64_t, int64_t>, Value> known = {}, vectors = {};
  };

  Strip openStrip(Value channel, Value windowRow, Value windowColumn, int64_t columnStep) {
    Strip strip;
    Value down = memory.add(memory.mulConstant(ownRow, spec.stride[0]),
                            memory.mulConstant(windowRow, spec.dilation[0])),
          across = memory.add(memory.mulConstant(ownColumn, spec.stride[1]),
                              memory.mulConstant(windowColumn, spec.dilation[1]));
    if (tiling.isStaged) {
      strip.base = memory.linearize({ownGroup, down, across}, tiling.stagedStrides());
      if (!tiling.channelsInner) {
        const int64_t step = std::gcd(tiling.across * spec.stride[1], columnStep * spec.dilation[1]);
        strip.aligned = std::gcd(widestAccess / bytes, step);
        strip.lead = tiling.lead;
      }
      return strip;
    }
    strip.row =
        memory.add(memory.addConstant(memory.mulConstant(firstRow, spec.stride[0]), -spec.pad[0]), down);
    strip.column =
        memory.add(memory.addConstant(memory.mulConstant(firstColumn, spec.stride[1]), -spec.pad[1]), across);
    strip.base = memory.add(inputBase(knownGroup, channel),
                            memory.linearize({strip.row, strip.column}, {spec.input[2], spec.input[3]}));
    return strip;
  }

  Value read(Strip &strip, int64_t row, int64_t column) {
    Value &known = strip.known[{row, column}];
    if (!known)
      known = tiling.isStaged ? readStaged(strip, row, column) : readInput(strip, row, column);
    return known;
  }
  Value readInput(Strip &strip, int64_t row, int64_t column) {
    Value exists = both(inside(memory.addConstant(strip.row, row), spec.size[0]),
                        inside(memory.addConstant(strip.column, column), spec.size[1]));
    return loadWhere(exists, Input,
                     memory.addConstant(strip.base, row * spec.input[2] + column * spec.input[3]));
  }
  /// Of a row that lies in one piece, with as many neighbours as can be read at once.
  Value readStaged(Strip &strip, int64_t row, int64_t column) {
    std::array<int64_t, 3> strides = tiling.stagedStrides();
    const int64_t width = strip.aligned, place = column + strip.lead, inVector = place % width;
    // Of bf16 two are a word, each of which is the upper half of its f32.
    const bool inWords = spec.type.isBF16() && width > 1;
    Value &vector = strip.vectors[{row, place - inVector}];
    if (!vector) {
      Value offset = memory.addConstant(strip.base, row * strides[1] + (place - inVector) * strides[2]);
      Type type = inWords ? kernel::VectorMemory::vectorOf(b.getI32Type(), width / 2)
                          : kernel::VectorMemory::vectorOf(held, width);
      vector = LLVM::LoadOp::create(b, loc, type, memory.address(shared, held, offset),
                                    static_cast<unsigned>(width * bytes));
    }
    auto elementAt = [&](int64_t at) -> Value {
      return isa<VectorType>(vector.getType()) ? vector::ExtractOp::create(b, loc, vector, at).getResult()
                                               : vector;
    };
    if (inWords) {
      Value word = elementAt(inVector / 2);
      Value bits =
          inVector % 2 == 0
              ? arith::ShLIOp::create(b, loc, word, memory.constantLike(word.getType(), 16)).getResult()
              : arith::AndIOp::create(b, loc, word, memory.constantLike(word.getType(), 0xffff0000));
      return arith::BitcastOp::create(b, loc, b.getF32Type(), bits);
    }
    Value element = elementAt(inVector);
    if (element.getType() != spec.type)
      element = arith::BitcastOp::create(b, loc, spec.type, element);
    return memory.convert(element, accumulate);
  }

  Value tap(Value channel, int64_t m, Value row, Value column) {
    return load(Weight, memory.linearize({outChannel(knownGroup, m), channel, row, column}, spec.weight));
  }

  SmallVector<Value> overWindow(Value channel, ValueRange sums) {
    if (tiling.isUnrolled)
      return slideOver(channel, memory.constant(0), spec.window[0], memory.constant(0), spec.window[1], 0,
                       sums);
    const int64_t columns = tiling.windowColumns, whole = spec.window[1] / columns,
                  rest = spec.window[1] % columns;
    return loop(spec.window[0], sums, [&](Value row, ValueRange carried) {
      SmallVector<Value> next(carried);
      if (whole > 0)
        next = loop(whole, carried, [&](Value part, ValueRange inRow) {
          return slideOver(channel, row, 1, memory.mulConstant(part, columns), columns, columns, inRow);
        });
      if (rest > 0)
        next = slideOver(channel, row, 1, memory.constant(whole * columns), rest, columns, next);
      return next;
    });
  }

  /// The sums with the products under so many rows and columns of the window. The first column is a multiple
  /// of `columnStep`.
  SmallVector<Value> slideOver(Value channel, Value firstRow, int64_t rows, Value firstColumn,
                               int64_t columns, int64_t columnStep, ValueRange sums) {
    SmallVector<Value> next(sums);
    Strip strip = openStrip(channel, firstRow, firstColumn, columnStep);
    std::map<std::array<int64_t, 3>, Value> taps;
    // By rows of the input, so that what has been read of one serves all windows that see it.
    for (int64_t row = 0; row <= (tiling.down - 1) * spec.stride[0] + (rows - 1) * spec.dilation[0]; ++row)
      for (int64_t r = 0; r < tiling.down; ++r) {
        const int64_t below = row - r * spec.stride[0];
        if (below < 0 || below % spec.dilation[0] != 0 || below / spec.dilation[0] >= rows)
          continue;
        const int64_t y = below / spec.dilation[0];
        for (int64_t x = 0; x < columns; ++x)
          for (int64_t m = 0; m < spec.outChannels; ++m) {
            Value &weight = taps[{m, y, x}];
            if (!weight)
              weight = tap(channel, m, memory.addConstant(firstRow, y), memory.addConstant(firstColumn, x));
            for (int64_t p = 0; p < tiling.across; ++p) {
              Value &sum = next[(m * tiling.down + r) * tiling.across + p];
              sum = math::FmaOp::create(b, loc, read(strip, row, p * spec.stride[1] + x * spec.dilation[1]),
                                        weight, sum);
            }
          }
      }
    return next;
  }

  void storeSums(ArrayRef<Value> sums) {
    const int64_t lanes = tiling.channelsInner ? 1 : std::min(spec.lanes, tiling.across);
    Value isOwn = both(below(thread, tiling.items()), hasGroup);
    Value row = memory.add(firstRow, ownRow), column = memory.add(firstColumn, ownColumn);
    for (int64_t r = 0; r < tiling.down; ++r) {
      Value atRow = memory.addConstant(row, r);
      for (int64_t p = 0; p < tiling.across; p += lanes) {
        Value atColumn = memory.addConstant(column, p);
        Value exists = both(isOwn, both(below(atRow, spec.places[0]), below(atColumn, spec.places[1])));
        when(exists, [&] {
          for (int64_t m = 0; m < spec.outChannels; ++m)
            store(sums.slice((m * tiling.down + r) * tiling.across + p, lanes), image, outChannel(group, m),
                  atRow, atColumn);
        });
      }
    }
  }

  const Tiling tiling;
  const int64_t bytes;
  Type held; ///< of elements in shared memory
  TensorCores copies;
  Value shared;
  // Of the tile, and of the thread in it.
  Value image, firstGroup, firstRow, firstColumn, ownGroup, ownRow, ownColumn, group, knownGroup, hasGroup;
};

} // namespace

kernel::GeneratedKernel nvidia::generateGrouped(MLIRContext &context, const BlockTeam &team,
                                                const GroupedSpec &spec) {
  return Generator(context, team, spec).run();
}
