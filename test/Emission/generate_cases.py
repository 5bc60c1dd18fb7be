#!/usr/bin/env python3
"""Writes cases/*.mlir: ops with operands and the results that NumPy, or ONNX's reference evaluator, gives for them.

Each case is a function with one op; its attributes hold the operands' values (`operands`), the results' (`expected`) and
the tolerance (`tolerance`, relative and absolute; NaN equals NaN). Run by hand after a change here; the files are checked
in, so that the tests need no Python.
"""
import math
import pathlib
import re

import ml_dtypes
import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

BF16 = ml_dtypes.bfloat16
NAMES = {
    np.dtype(np.float32): "f32", np.dtype(np.float64): "f64", np.dtype(np.float16): "f16", np.dtype(BF16): "bf16",
    np.dtype(np.int8): "i8", np.dtype(np.int16): "i16", np.dtype(np.int32): "i32", np.dtype(np.int64): "i64",
    np.dtype(np.uint8): "ui8", np.dtype(np.uint16): "ui16", np.dtype(np.uint32): "ui32", np.dtype(np.uint64): "ui64",
    np.dtype(np.bool_): "i1",
}
FLOATS = [np.float32, np.float64, np.float16, BF16]
SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
INTEGERS = SIGNED + UNSIGNED
TOLERANCE = {"f32": 2e-6, "f64": 1e-12, "f16": 2e-3, "bf16": 1.6e-2}
INF, NAN = float("inf"), float("nan")


def is_float(dtype):
    return NAMES[np.dtype(dtype)] in TOLERANCE


def type_of(array):
    return "tensor<" + "".join(f"{n}x" for n in array.shape) + NAMES[array.dtype] + ">"


def literal(array):
    def number(x):
        name = NAMES[array.dtype]
        if name == "i1":
            return "true" if x else "false"
        if not is_float(array.dtype):
            return str(int(x))
        if math.isfinite(float(x)):
            return f"{float(x):.17e}" if name == "f64" else f"{float(x):.9e}"
        bits = {"f32": np.uint32, "f64": np.uint64}.get(name, np.uint16)
        return f"0x{int(np.asarray(x).view(bits)):0{2 * array.dtype.itemsize}X}"

    def nested(a):
        return number(a[()]) if a.ndim == 0 else "[" + ", ".join(nested(b) for b in a) + "]"

    body = "" if array.size == 0 else nested(array)
    return f"dense<{body}> : {type_of(array)}"


class Suite:
    def __init__(self, name):
        self.name, self.lines, self.seen = name, [], set()

    def case(self, name, op, operands, expected, tolerance=None):
        """`op` has {0}, {1}.. where the operands' types go, and {r}, {s} where the results' do."""
        assert name not in self.seen, name
        self.seen.add(name)
        operands = [np.asarray(a) for a in operands]
        expected = [np.asarray(a) for a in (expected if isinstance(expected, (list, tuple)) else [expected])]
        if tolerance is None:
            tolerance = max([TOLERANCE.get(NAMES[a.dtype], 0.0) for a in expected])
        args = ", ".join(f"%{i}: {type_of(a)}" for i, a in enumerate(operands))
        types = {str(i): type_of(a) for i, a in enumerate(operands)} | {"r": type_of(expected[0]), "s": type_of(expected[-1])}
        text = re.sub(r"\{(\d|r|s)\}", lambda match: types[match[1]], op).replace("{{", "{").replace("}}", "}")
        values = "%r = " if len(expected) == 1 else f"%r:{len(expected)} = "
        self.lines.append(
            f"func.func @{name}({args}) attributes {{\n  operands = [{', '.join(map(literal, operands))}],\n"
            f"  expected = [{', '.join(map(literal, expected))}], tolerance = {tolerance:.3e} : f64}} {{\n"
            f"  {values}{text}\n  return\n}}")

    def write(self):
        path = pathlib.Path(__file__).parent / "cases" / f"{self.name}.mlir"
        path.parent.mkdir(exist_ok=True)
        path.write_text("// Written by generate_cases.py.\n" + "\n".join(self.lines) + "\n")
        print(self.name, len(self.lines))


def onnx_run(op_type, inputs, outputs=1, opset=21, **attributes):
    """The results of one ONNX operator by the reference evaluator. None inputs are absent."""
    names = [f"i{k}" if a is not None else "" for k, a in enumerate(inputs)]
    node = helper.make_node(op_type, names, [f"o{k}" for k in range(outputs)], **attributes)
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.asarray(a).dtype), None)
             for n, a in zip(names, inputs) if n]
    results = [helper.make_tensor_value_info(f"o{k}", onnx.TensorProto.UNDEFINED, None) for k in range(outputs)]
    graph = helper.make_graph([node], "g", infos, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return ReferenceEvaluator(model).run(None, {n: np.asarray(a) for n, a in zip(names, inputs) if n})


# --- elementwise ------------------------------------------------------------------------------------------------------

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


UNARY = {  # kind: (function of f64, params)
    "abs": (np.abs, None), "neg": (np.negative, None), "reciprocal": (lambda x: 1 / x, None), "sqrt": (np.sqrt, None),
    "exp": (np.exp, None), "log": (np.log, None), "erf": (erf, None), "sin": (np.sin, None), "cos": (np.cos, None),
    "tan": (np.tan, None), "asin": (np.arcsin, None), "acos": (np.arccos, None), "atan": (np.arctan, None),
    "sinh": (np.sinh, None), "cosh": (np.cosh, None), "tanh": (np.tanh, None), "asinh": (np.arcsinh, None),
    "acosh": (np.arccosh, None), "atanh": (np.arctanh, None), "ceil": (np.ceil, None), "floor": (np.floor, None),
    "round": (np.round, None), "sign": (np.sign, None), "relu": (lambda x: np.maximum(x, 0), None),
    "leaky_relu": (lambda x: np.where(x < 0, 0.1 * x, x), [0.1]),
    "elu": (lambda x: np.where(x < 0, 1.5 * np.expm1(x), x), [1.5]),
    "selu": (lambda x: 1.05 * np.where(x <= 0, 1.67 * np.expm1(x), x), [1.67, 1.05]),
    "celu": (lambda x: np.maximum(x, 0) + np.minimum(0, 2.0 * np.expm1(x / 2.0)), [2.0]),
    "sigmoid": (sigmoid, None), "hard_sigmoid": (lambda x: np.clip(0.25 * x + 0.5, 0, 1), [0.25, 0.5]),
    "hard_swish": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), None), "softplus": (softplus, None),
    "softsign": (lambda x: x / (1 + np.abs(x)), None),
    "thresholded_relu": (lambda x: np.where(x > 0.75, x, 0), [0.75]),
    "gelu": (lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))), None),
    "gelu_tanh": (lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), None),
    "swish": (lambda x: x * sigmoid(1.7 * x), [1.7]), "mish": (lambda x: x * np.tanh(softplus(x)), None),
    "shrink": (lambda x: np.where(x < -0.5, x + 0.25, np.where(x > 0.5, x - 0.25, 0)), [0.5, 0.25]),
}
SAMPLES = [-40.0, -3.75, -2.5, -1.0, -0.5, -0.125, -0.0, 0.0, 0.0625, 0.5, 0.75, 1.0, 1.5, 2.5, 3.5, 11.0, INF, -INF, NAN]
# What these give at infinity is NaN by one formula and a limit by another.
FINITE_ONLY = {"gelu", "gelu_tanh", "swish", "mish", "hard_swish", "softsign", "thresholded_relu", "shrink"}


def unary(suite):
    for kind, (function, params) in UNARY.items():
        for dtype in FLOATS:
            x = np.array(SAMPLES[:-3] if kind in FINITE_ONLY else SAMPLES).astype(dtype)
            with np.errstate(all="ignore"):
                y = function(x.astype(np.float64)).astype(dtype)
            attributes = " {params = array<f64: " + ", ".join(map(str, params)) + ">}" if params else ""
            suite.case(f"{kind}_{NAMES[x.dtype]}", f"colossal.elementwise {kind}(%0){attributes} : ({{0}}) -> {{r}}", [x], y)
    for dtype in INTEGERS:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        x = np.array([low + 1 if low else 0, 0, 1, 7, high], dtype)
        name = NAMES[x.dtype]
        suite.case(f"abs_{name}", "colossal.elementwise abs(%0) : ({0}) -> {r}", [x], np.abs(x))
        suite.case(f"sign_{name}", "colossal.elementwise sign(%0) : ({0}) -> {r}", [x], np.sign(x))
        suite.case(f"relu_{name}", "colossal.elementwise relu(%0) : ({0}) -> {r}", [x], np.maximum(x, 0).astype(dtype))
        suite.case(f"bit_not_{name}", "colossal.elementwise bit_not(%0) : ({0}) -> {r}", [x], np.invert(x))
        if low:
            suite.case(f"neg_{name}", "colossal.elementwise neg(%0) : ({0}) -> {r}", [x], -x)
    small = np.array([-1e-4, -1e-6, -0.01], np.float32)  # where e^x - 1 loses digits
    suite.case("elu_small", "colossal.elementwise elu(%0) {{params = array<f64: 1.0>}} : ({0}) -> {r}", [small],
               np.expm1(small.astype(np.float64)).astype(np.float32), tolerance=1e-9)
    b = np.array([True, False])
    suite.case("not", "colossal.elementwise not(%0) : ({0}) -> {r}", [b], ~b)
    for dtype in FLOATS:
        x = np.array([1.0, INF, -INF, NAN]).astype(dtype)
        name = NAMES[x.dtype]
        y = x.astype(np.float64)
        suite.case(f"is_nan_{name}", "colossal.elementwise is_nan(%0) : ({0}) -> {r}", [x], np.isnan(y))
        for low, high in [(0, 0), (0, 1), (1, 0), (1, 1)]:
            suite.case(f"is_inf_{low}{high}_{name}",
                       f"colossal.elementwise is_inf(%0) {{{{params = array<f64: {low}.0, {high}.0>}}}} : ({{0}}) -> {{r}}", [x],
                       (np.isneginf(y) & bool(low)) | (np.isposinf(y) & bool(high)))


def truncated_division(a, b):
    return np.array([int(abs(int(x)) // abs(int(y))) * (-1 if (int(x) < 0) != (int(y) < 0) else 1) for x, y in zip(a, b)], a.dtype)


def binary(suite):
    def add(kind, name, operands, expected, **more):
        suite.case(f"{kind}_{name}", f"colossal.elementwise {kind}(%0, %1) : ({{0}}, {{1}}) -> {{r}}", operands, expected, **more)

    floats = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
              "min": np.minimum, "mod": np.mod, "fmod": np.fmod, "pow": np.power}
    compares = {"equal": np.equal, "less": np.less, "less_or_equal": np.less_equal, "greater": np.greater,
                "greater_or_equal": np.greater_equal}
    for dtype in FLOATS:
        a = np.array([1.5, -2.5, 0.0, 7.0, INF, NAN, 3.0, -7.5]).astype(dtype)
        b = np.array([0.5, 2.0, -1.0, 3.0, 1.0, 1.0, NAN, 2.0]).astype(dtype)
        name, wide = NAMES[a.dtype], (a.astype(np.float64), b.astype(np.float64))
        with np.errstate(all="ignore"):
            for kind, function in floats.items():
                add(kind, name, [a, b], function(*wide).astype(dtype))
            for kind, function in compares.items():
                add(kind, name, [a, b], function(*wide))
        add("prelu", name, [a, b], np.where(a < 0, wide[0] * wide[1], wide[0]).astype(dtype))
    for dtype in INTEGERS:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        a = np.array([7, 7, 0, high, 100, 1, low, high - 1] + ([-7, -7, low, -1] if low else []), dtype)
        b = np.array([2, 3, 5, 1, 7, high, 1, high] + ([2, -3, -1, high] if low else []), dtype)
        name = NAMES[a.dtype]
        with np.errstate(all="ignore"):
            for kind in ("add", "sub", "mul", "max", "min"):
                add(kind, name, [a, b], floats[kind](a, b))
            safe = slice(0, 8) if not low else np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11])
            add("div", name, [a[safe], b[safe]], truncated_division(a[safe], b[safe]))
            add("mod", name, [a, b], np.mod(a, b))
            add("fmod", name, [a, b], np.fmod(a, b))
        for kind, function in compares.items():
            add(kind, name, [a, b], function(a, b))
        for kind, function in {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}.items():
            add(kind, name, [a, b], function(a, b))
        base = np.array([0, 1, 2, 3, 5, 2], dtype)
        exponent = np.array([0, 5, 6, 4, 2, 1], dtype)
        add("pow", name, [base, exponent], np.power(base, exponent))
        if not low:
            width = 8 * a.dtype.itemsize
            amount = np.array([0, 1, 3, width - 1, width, 2, 5, 7], dtype)
            python = [int(x) for x in a]
            add("shift_left", name, [a, amount],
                np.array([(x << int(n)) % 2**width if n < width else 0 for x, n in zip(python, amount)], dtype))
            add("shift_right", name, [a, amount],
                np.array([x >> int(n) if n < width else 0 for x, n in zip(python, amount)], dtype))
    big = np.array([3, -3, 7, 10, -1, -1, 2, 1, 0], np.int64)
    power = np.array([39, 39, 22, 18, 5, -3, -1, -7, 0], np.int64)
    exact = [int(x)**int(y) if y >= 0 else {1: 1, -1: -1 if y % 2 else 1}.get(int(x), 0) for x, y in zip(big, power)]
    add("pow", "exact", [big, power], np.array(exact, np.int64))
    base = np.array([2.0, 9.0, -2.0], np.float32)
    add("pow", "f32_i64", [base, np.array([3, 2, 5], np.int64)], np.array([8, 81, -32], np.float32))
    add("pow", "i32_f32", [np.array([2, 9, 10], np.int32), np.array([3, 0.5, 2], np.float32)], np.array([8, 3, 100], np.int32))
    for scalar in (2.0, 3.0, 0.5, -1.0, -0.5, 1.0):
        x = np.array([0.25, 4.0, 9.0, -0.0, 1.75], np.float32)
        with np.errstate(all="ignore"):
            add("pow", f"by_{scalar}".replace(".", "_").replace("-", "m"), [x, np.float32(scalar)], np.power(x, np.float32(scalar)))
    p, q = np.array([True, True, False, False]), np.array([True, False, True, False])
    for kind, function in {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "equal": np.equal}.items():
        add(kind, "i1", [p, q], function(p, q))
    a, b = np.arange(6, dtype=np.float32).reshape(2, 1, 3), np.arange(4, dtype=np.float32).reshape(4, 1) * 10
    add("add", "broadcast", [a, b], a + b)


def ternary(suite):
    for dtype in FLOATS + INTEGERS:
        c, a, b = np.array([True, False, True]), np.array([1, 2, 3]).astype(dtype), np.array([7, 8, 9]).astype(dtype)
        name = NAMES[a.dtype]
        suite.case(f"select_{name}", "colossal.elementwise select(%0, %1, %2) : ({0}, {1}, {2}) -> {r}", [c, a, b], np.where(c, a, b))
        x = np.array([0, 3, 9]).astype(dtype)
        suite.case(f"clip_{name}", "colossal.elementwise clip(%0, %1, %2) : ({0}, {1}, {2}) -> {r}",
                   [x, np.asarray(2).astype(dtype), np.asarray(5).astype(dtype)], np.array([2, 3, 5]).astype(dtype))
    x = np.array([-1.0, 0.0, 9.0, NAN], np.float32)
    suite.case("clip_low_above_high", "colossal.elementwise clip(%0, %1, %2) : ({0}, {1}, {2}) -> {r}",
               [x, np.float32(5), np.float32(2)], np.array([2, 2, 2, NAN], np.float32))
    row = np.array([True, False, True])
    suite.case("select_broadcast", "colossal.elementwise select(%0, %1, %2) : ({0}, {1}, {2}) -> {r}",
               [row, np.ones((2, 3), np.float32), np.float32(-INF)], np.where(row, np.ones((2, 3), np.float32), np.float32(-INF)))


def casts(suite):
    every = FLOATS + INTEGERS + [np.bool_]
    for source in every:
        for target in every:
            if source is np.bool_:
                x = np.array([True, False])
            elif is_float(source):
                x = np.array([0.0, 1.0, 2.75, 100.5, 0.4] + ([-1.0, -2.75] if target in FLOATS + SIGNED else [])).astype(source)
            else:
                low, high = np.iinfo(source).min, np.iinfo(source).max
                x = np.array([0, 1, 100, high] + ([-1, low] if low else []), source)
                if is_float(target):
                    x = x[:3] if target is np.float16 else x
            wide = x.astype(np.float32) if source in (np.float16, BF16) else x
            if target in (np.float16, BF16) and source is not target:
                wide = wide.astype(np.float32)
            with np.errstate(all="ignore"):
                y = (x != 0) if target is np.bool_ else wide.astype(target)
            suite.case(f"cast_{NAMES[np.dtype(source)]}_{NAMES[np.dtype(target)]}", "colossal.elementwise cast(%0) : ({0}) -> {r}", [x], y, tolerance=0)
    ties = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.0**-24, 2.0**-25, 1.5 * 2.0**-24, 65519.0, 65520.0, 6e-8, NAN, -INF], np.float32)
    suite.case("cast_ties_f16", "colossal.elementwise cast(%0) : ({0}) -> {r}", [ties], ties.astype(np.float16), tolerance=0)
    ties = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.4e38, 1e-40, NAN], np.float32)
    suite.case("cast_ties_bf16", "colossal.elementwise cast(%0) : ({0}) -> {r}", [ties], ties.astype(BF16), tolerance=0)
    x = np.array([NAN, INF, -0.5], np.float32)
    suite.case("cast_nan_i1", "colossal.elementwise cast(%0) : ({0}) -> {r}", [x], np.array([True, True, True]))


def elementwise():
    suite = Suite("elementwise")
    unary(suite)
    binary(suite)
    ternary(suite)
    casts(suite)
    suite.write()


# --- movement ---------------------------------------------------------------------------------------------------------

def ramp(shape, dtype=np.float32, seed=None):
    count = math.prod(shape)
    if seed is None:
        return np.arange(count).astype(dtype).reshape(shape)
    values = np.random.default_rng(seed).standard_normal(count)
    return (values if is_float(dtype) else values * 10).astype(dtype).reshape(shape)


def movement():
    suite = Suite("movement")
    shapes = [((2, 3, 4), (6, 4)), ((6, 4), (2, 3, 2, 2)), ((4, 6), (6, 4)), ((1, 6, 1), (6,)), ((6,), (1, 2, 1, 3)),
              ((2, 6), (4, 3)), ((), (1, 1)), ((1,), ()), ((2, 3, 4), (4, 3, 2)), ((3, 1, 4), (12, 1))]
    for i, (source, target) in enumerate(shapes):
        x = ramp(source)
        suite.case(f"reshape_{i}", "colossal.reshape %0 : {0} -> {r}", [x], x.reshape(target))
    for dtype in FLOATS + INTEGERS + [np.bool_]:
        x = ramp((2, 3), dtype)
        suite.case(f"transpose_{NAMES[x.dtype]}", "colossal.transpose %0 [1, 0] : {0} -> {r}", [x], np.ascontiguousarray(x.T))
    x = ramp((2, 3, 4))
    for permutation in [(2, 0, 1), (0, 2, 1), (1, 2, 0)]:
        suite.case("transpose_" + "".join(map(str, permutation)), f"colossal.transpose %0 {list(permutation)} : {{0}} -> {{r}}", [x], x.transpose(permutation))
    suite.case("broadcast", "colossal.broadcast %0 : {0} -> {r}", [ramp((3, 1))], np.broadcast_to(ramp((3, 1)), (2, 3, 4)).copy())
    x = ramp((5, 6))
    suite.case("slice", "colossal.slice %0 [1, 2] by [2, 1] : {0} -> {r}", [x], x[1::2, 2:5])
    suite.case("slice_backward", "colossal.slice %0 [4, 5] by [-1, -2] : {0} -> {r}", [x], x[::-1, 5::-2].copy())
    parts = [ramp((2, 3)), -ramp((2, 1)), np.zeros((2, 0), np.float32), 10 * ramp((2, 2))]
    suite.case("concat_inner", "colossal.concat %0, %1, %2, %3 {{axis = 1 : i64}} : ({0}, {1}, {2}, {3}) -> {r}", parts, np.concatenate(parts, 1))
    parts = [ramp((1, 3), np.int64), -ramp((2, 3), np.int64)]
    suite.case("concat_outer", "colossal.concat %0, %1 {{axis = 0 : i64}} : ({0}, {1}) -> {r}", parts, np.concatenate(parts, 0))
    x = ramp((3, 4))
    text = "colossal.pad %0 low [{0}, {1}]{2} : {{0}} -> {{r}}"
    for mode in ("constant", "reflect", "edge", "wrap"):
        attribute = "" if mode == "constant" else f" {{{{mode = #colossal<pad_mode {mode}>}}}}"
        for i, (low, high) in enumerate([((1, 2), (2, 1)), ((0, 3), (0, 3)), ((2, 0), (2, 0))]):
            suite.case(f"pad_{mode}_{i}", text.format(*low, attribute), [x], np.pad(x, list(zip(low, high)), mode=mode))
    suite.case("pad_reflect_far", "colossal.pad %0 low [7] {{mode = #colossal<pad_mode reflect>}} : {0} -> {r}", [ramp((3,))], np.pad(ramp((3,)), (7, 6), mode="reflect"))
    suite.case("pad_wrap_far", "colossal.pad %0 low [7] {{mode = #colossal<pad_mode wrap>}} : {0} -> {r}", [ramp((3,))], np.pad(ramp((3,)), (7, 6), mode="wrap"))
    suite.case("pad_crop", "colossal.pad %0 low [-1, 2] : {0} -> {r}", [x], np.pad(x, [(0, 0), (2, 0)])[1:2, :4])
    suite.case("pad_value", "colossal.pad %0 value %1 low [1, 0] : {0}, {1} -> {r}", [ramp((1, 2), np.int32), np.array(-7, np.int32)], np.pad(ramp((1, 2), np.int32), [(1, 1), (0, 1)], constant_values=-7))
    suite.write()


# --- indexing ---------------------------------------------------------------------------------------------------------

def gather_elements(data, indices, axis):
    y = np.empty(indices.shape, data.dtype)
    for at in np.ndindex(*indices.shape):
        source = list(at)
        source[axis] = indices[at]
        y[at] = data[tuple(source)]
    return y


COMBINE = {"none": lambda old, new: new, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scatter(data, indices, updates, reduction, axis=None):
    """ScatterElements along `axis`, or ScatterND where it is None."""
    y = data.copy()
    for at in np.ndindex(*(indices.shape if axis is not None else indices.shape[:-1])):
        target = at[:axis] + (indices[at],) + at[axis + 1:] if axis is not None else tuple(indices[at])
        y[target] = COMBINE[reduction](y[target], updates[at])
    return y


def indexing():
    suite = Suite("indexing")
    x = ramp((3, 4, 2))
    for axis in range(3):
        for dtype in (np.int32, np.int64):
            i = np.array([[0, 1], [-1, 1]], dtype)
            suite.case(f"gather_{axis}_{NAMES[i.dtype]}", f"colossal.gather %0[%1] {{{{axis = {axis} : i64}}}} : {{0}}, {{1}} -> {{r}}", [x, i], np.take(x, i, axis))
    suite.case("gather_scalar", "colossal.gather %0[%1] {{axis = 0 : i64}} : {0}, {1} -> {r}", [ramp((4,), np.int64), np.array(2, np.int64)], np.array(2, np.int64))
    for axis in range(3):
        i = np.array([[[0], [-1]], [[1], [0]]], np.int64)
        suite.case(f"gather_elements_{axis}", f"colossal.gather_elements %0[%1] {{{{axis = {axis} : i64}}}} : {{0}}, {{1}} -> {{r}}", [x, i], [gather_elements(x, i, axis)])
    for name, data, i, batch in [("full", x, np.array([[0, 1, 1], [-1, 3, 0]], np.int64), 0), ("slices", x, np.array([[1], [-3]], np.int64), 0),
                                 ("pairs", x, np.array([[[0, 1]], [[2, -1]]], np.int64), 0), ("batch", x, np.array([[1], [0], [-1]], np.int64), 1)]:
        suite.case(f"gather_nd_{name}", f"colossal.gather_nd %0[%1] {{{{batch_dims = {batch} : i64}}}} : {{0}}, {{1}} -> {{r}}", [data, i], onnx_run("GatherND", [data, i], batch_dims=batch))
    for reduction in ("none", "add", "mul", "max", "min"):
        x = ramp((3, 4)) + 1
        i = np.array([[1, 0, 3], [0, 2, -1]], np.int64)
        if reduction != "none":
            i[0, 1] = 1  # twice
        u = np.array([[10, -2, 3], [0.5, 6, 7]], np.float32)
        text = f"colossal.scatter_elements {reduction} %0[%1], %2 {{{{axis = 1 : i64}}}} : {{0}}, {{1}}, {{2}} -> {{r}}"
        suite.case(f"scatter_elements_{reduction}", text, [x, i, u], scatter(x, i, u, reduction, 1))
        rows = np.array([[0, 1, 2, 0], [2, 0, -2, 1]], np.int32)
        u = ramp((2, 4), seed=3)
        suite.case(f"scatter_rows_{reduction}", text.replace("axis = 1", "axis = 0"), [x, rows, u], scatter(x, rows, u, reduction, 0))
        i = np.array([[2], [0]] if reduction == "none" else [[2], [2]], np.int64)
        u = ramp((2, 4), seed=4)
        text = f"colossal.scatter_nd {reduction} %0[%1], %2 : {{0}}, {{1}}, {{2}} -> {{r}}"
        suite.case(f"scatter_nd_rows_{reduction}", text, [x, i, u], scatter(x, i, u, reduction))
        i = np.array([[[0, 1], [-1, -1]]], np.int64)
        u = np.array([[5, -6]], np.float32)
        suite.case(f"scatter_nd_elements_{reduction}", text, [x, i, u], scatter(x, i, u, reduction))
    suite.case("scatter_i64", "colossal.scatter_elements add %0[%1], %2 {{axis = 0 : i64}} : {0}, {1}, {2} -> {r}",
               [ramp((3,), np.int64), np.array([1, 1], np.int64), np.array([10, 20], np.int64)], np.array([0, 31, 2], np.int64))
    for dtype in FLOATS + INTEGERS:
        start, step = (1.5, 0.25) if is_float(dtype) else (3, 2)
        y = (start + step * np.arange(5)).astype(dtype)
        suite.case(f"iota_{NAMES[y.dtype]}", f"colossal.iota {{{{axis = 1 : i64, start = {start:.2f} : f64, step = {step:.2f} : f64}}}} : {{r}}", [], np.stack([y, y]))
    suite.case("iota_back", "colossal.iota {{axis = 0 : i64, start = 5.0 : f64, step = -2.0 : f64}} : {r}", [], np.array([5, 3, 1, -1], np.int64))
    suite.write()


# --- reductions -------------------------------------------------------------------------------------------------------

def log_sum_exp(x, axis):
    m = np.max(x, axis=axis, keepdims=True)
    m = np.where(np.isfinite(m), m, 0)
    return np.squeeze(m, axis) + np.log(np.sum(np.exp(x - m), axis=axis))


REDUCE = {
    "sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min,
    "sum_square": lambda x, axis: np.sum(x * x, axis=axis), "l1": lambda x, axis: np.sum(np.abs(x), axis=axis),
    "l2": lambda x, axis: np.sqrt(np.sum(x * x, axis=axis)), "log_sum": lambda x, axis: np.log(np.sum(x, axis=axis)),
    "log_sum_exp": log_sum_exp,
}


def reduction():
    suite = Suite("reduction")
    for kind, function in REDUCE.items():
        for dtype in FLOATS:
            x = np.abs(ramp((3, 4), dtype, seed=5)) if kind == "log_sum" else ramp((3, 4), dtype, seed=5)
            for axis in range(2):
                y = function(x.astype(np.float64), axis=axis).astype(dtype)
                suite.case(f"{kind}_{NAMES[x.dtype]}_{axis}", f"colossal.reduce {kind} %0 over [{axis}] : {{0}} -> {{r}}", [x], y, tolerance=4 * TOLERANCE[NAMES[x.dtype]])
    x = ramp((2, 3, 4), seed=6)
    suite.case("sum_two", "colossal.reduce sum %0 over [0, 2] : {0} -> {r}", [x], np.sum(x, (0, 2)))
    suite.case("sum_keep", "colossal.reduce sum %0 over [0, 2] {{keepdims = true}} : {0} -> {r}", [x], np.sum(x, (0, 2), keepdims=True))
    suite.case("mean_all", "colossal.reduce mean %0 over [0, 1, 2] : {0} -> {r}", [x], np.mean(x))
    suite.case("mean_count", "colossal.reduce mean %0 over [1] {{count = 12 : i64}} : {0} -> {r}", [x], (np.sum(x, 1) / 12))
    for dtype in INTEGERS:
        x = np.array([[3, 1, 2], [5, 0, 4]], dtype)
        if dtype in SIGNED:
            x[0, 1] = -4
        name = NAMES[x.dtype]
        for kind in ("sum", "prod", "max", "min", "sum_square", "l1"):
            y = REDUCE[kind](x.astype(np.int64), axis=1).astype(dtype)
            suite.case(f"{kind}_{name}", f"colossal.reduce {kind} %0 over [1] : {{0}} -> {{r}}", [x], y)
    suite.case("mean_i32", "colossal.reduce mean %0 over [0] : {0} -> {r}", [np.array([7, -2, 3], np.int32)], np.array(2, np.int32))
    suite.case("l2_i32", "colossal.reduce l2 %0 over [0] : {0} -> {r}", [np.array([3, -4], np.int32)], np.array(5, np.int32))
    b = np.array([[True, False], [True, True], [False, False]])
    suite.case("any", "colossal.reduce max %0 over [1] : {0} -> {r}", [b], b.any(1))
    suite.case("all", "colossal.reduce min %0 over [1] : {0} -> {r}", [b], b.all(1))
    x = np.array([[1, NAN, 2], [-INF, -INF, -INF], [INF, 1, 0]], np.float32)
    with np.errstate(all="ignore"):
        suite.case("max_special", "colossal.reduce max %0 over [1] : {0} -> {r}", [x], np.max(x, 1))
        suite.case("min_special", "colossal.reduce min %0 over [1] : {0} -> {r}", [x], np.min(x, 1))
        suite.case("log_sum_exp_special", "colossal.reduce log_sum_exp %0 over [1] : {0} -> {r}", [x], np.array([NAN, -INF, INF], np.float32))
    large = np.array([[1000, 1001], [-2000, -2001]], np.float32)
    suite.case("log_sum_exp_large", "colossal.reduce log_sum_exp %0 over [1] : {0} -> {r}", [large], log_sum_exp(large.astype(np.float64), 1).astype(np.float32))
    suite.case("sum_empty", "colossal.reduce sum %0 over [1] : {0} -> {r}", [np.zeros((2, 0), np.float32)], np.zeros(2, np.float32))
    for dtype in (np.float32, np.float16, np.int32, np.uint8, np.int64):
        x = np.array([[3, 9, 1, 9, 1], [2, 2, 2, 2, 2]], dtype)
        for op, minimum in (("ArgMax", "false"), ("ArgMin", "true")):
            for last in (0, 1):
                for axis, keep in ((1, 1), (0, 0)):
                    text = f"colossal.arg_reduce %0 {{{{axis = {axis} : i64, minimum = {minimum}, keepdims = {str(bool(keep)).lower()}, select_last = {str(bool(last)).lower()}}}}} : {{0}} -> {{r}}"
                    suite.case(f"{op.lower()}_{last}{axis}_{NAMES[x.dtype]}", text, [x], onnx_run(op, [x], axis=axis, keepdims=keep, select_last_index=last))
    for dtype in (np.float32, np.float16, np.int64, np.int32):
        x = np.array([[1, 2, 3, 4], [5, -6, 7, 8]], dtype)
        for exclusive in (0, 1):
            for reverse in (0, 1):
                for axis in (0, 1):
                    text = f"colossal.cumulate %0 {{{{axis = {axis} : i64, exclusive = {str(bool(exclusive)).lower()}, reverse = {str(bool(reverse)).lower()}}}}} : {{0}}"
                    wide = onnx_run("CumSum", [x.astype(np.float64), np.array(axis)], exclusive=exclusive, reverse=reverse)[0]
                    suite.case(f"cumsum_{exclusive}{reverse}{axis}_{NAMES[x.dtype]}", text, [x], wide.astype(dtype))
    x = np.array([1, 2, 3, 4], np.float32)
    suite.case("cumprod", "colossal.cumulate %0 {{axis = 0 : i64, exclusive = false, reverse = false, product = true}} : {0}", [x], np.cumprod(x))
    suite.case("cumprod_exclusive", "colossal.cumulate %0 {{axis = 0 : i64, exclusive = true, reverse = false, product = true}} : {0}", [x], np.array([1, 1, 2, 6], np.float32))
    for dtype in (np.float32, BF16, np.int64, np.uint8):
        x = np.array([[3, 9, 1, 9, 2], [5, 5, 5, 0, 5]], dtype)
        for axis, k in ((1, 3), (1, 5), (0, 2)):
            for largest in (True, False):
                key = -x.astype(np.float64) if largest else x.astype(np.float64)
                order = np.take(np.argsort(key, axis=axis, kind="stable"), np.arange(k), axis=axis)
                text = f"colossal.topk %0 {{{{axis = {axis} : i64, largest = {str(largest).lower()}}}}} : {{0}} -> {{r}}, {{s}}"
                suite.case(f"topk_{axis}{k}{largest}_{NAMES[x.dtype]}", text, [x], [np.take_along_axis(x, order, axis), order.astype(np.int64)])
    x = np.array([1, NAN, 3, -INF], np.float32)
    suite.case("topk_nan", "colossal.topk %0 {{axis = 0 : i64, largest = true}} : {0} -> {r}, {s}", [x], [np.array([NAN, 3, 1, -INF], np.float32), np.array([1, 2, 0, 3])])
    suite.case("topk_nan_least", "colossal.topk %0 {{axis = 0 : i64, largest = false}} : {0} -> {r}, {s}", [x], [np.array([-INF, 1, 3, NAN], np.float32), np.array([3, 0, 2, 1])])
    suite.write()


# --- normalization ----------------------------------------------------------------------------------------------------

def normalization():
    suite = Suite("normalization")
    for dtype in FLOATS:
        x, scale, bias = ramp((2, 3, 4), dtype, seed=7), ramp((3, 4), dtype, seed=8), ramp((4,), dtype, seed=9)
        w = [a.astype(np.float64) for a in (x, scale, bias)]
        name = NAMES[x.dtype]
        tolerance = 4 * TOLERANCE[name]
        mean, variance = w[0].mean((1, 2), keepdims=True), w[0].var((1, 2), keepdims=True)
        layer = (w[0] - mean) / np.sqrt(variance + 1e-2)
        rms = w[0] / np.sqrt((w[0]**2).mean(2, keepdims=True) + 1e-2)
        suite.case(f"layer_{name}", "colossal.normalize layer(%0, scale %1, bias %2) {{axis = 1 : i64, epsilon = 1.0e-2 : f64}} : ({0}, {1}, {2}) -> {r}",
                   [x, scale, bias], (layer * w[1] + w[2]).astype(dtype), tolerance=tolerance)
        suite.case(f"layer_plain_{name}", "colossal.normalize layer(%0) {{axis = 1 : i64, epsilon = 1.0e-2 : f64}} : ({0}) -> {r}", [x], layer.astype(dtype), tolerance=tolerance)
        suite.case(f"rms_{name}", "colossal.normalize rms(%0, scale %1) {{axis = 2 : i64, epsilon = 1.0e-2 : f64}} : ({0}, {1}) -> {r}", [x, bias], (rms * w[2]).astype(dtype), tolerance=tolerance)
        for axis in (0, 2):
            shifted = np.exp(w[0] - w[0].max(axis, keepdims=True))
            soft = shifted / shifted.sum(axis, keepdims=True)
            text = f"colossal.softmax %0 {{{{axis = {axis} : i64{{more}}}}}} : {{{{0}}}}"
            suite.case(f"softmax_{axis}_{name}", text.replace("{more}", "").replace("{{{{0}}}}", "{0}").replace("{{0}}", "{0}"), [x], soft.astype(dtype), tolerance=tolerance)
            suite.case(f"log_softmax_{axis}_{name}", text.replace("{more}", ", log = true").replace("{{{{0}}}}", "{0}").replace("{{0}}", "{0}"), [x], np.log(soft).astype(dtype), tolerance=tolerance)
    shifted = np.array([[1e4, 1e4 + 1], [-INF, 0.0], [-INF, -INF]], np.float32)
    expected = np.array([[0.26894142, 0.73105858], [0, 1], [NAN, NAN]], np.float32)
    suite.case("softmax_special", "colossal.softmax %0 {{axis = 1 : i64}} : {0}", [shifted], expected)
    guarded = expected.copy()
    guarded[2] = 0
    suite.case("softmax_guard", "colossal.softmax %0 {{axis = 1 : i64, guard = true}} : {0}", [shifted], guarded)
    suite.write()


# --- contraction, attention -------------------------------------------------------------------------------------------

def contraction():
    suite = Suite("contraction")
    for dtype in FLOATS + [np.int32, np.int64, np.uint8]:
        a, b = ramp((2, 3), dtype, seed=10), ramp((3, 4), dtype, seed=11)
        with np.errstate(all="ignore"):
            y = (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype) if is_float(dtype) else a @ b
        suite.case(f"matmul_{NAMES[a.dtype]}", "colossal.contract %0 [0, 1], %1 [1, 2] -> [0, 2] : ({0}, {1}) -> {r}", [a, b], y, tolerance=4 * TOLERANCE.get(NAMES[a.dtype], 0))
    a, b = ramp((2, 3, 4), seed=12), ramp((4, 2, 5), seed=13)
    suite.case("batched", "colossal.contract %0 [0, 1, 2], %1 [2, 0, 3] -> [3, 0, 1] : ({0}, {1}) -> {r}", [a, b], np.einsum("bmk,kbn->nbm", a, b), tolerance=1e-5)
    suite.case("two_sums", "colossal.contract %0 [0, 1, 2], %1 [2, 0, 3] -> [3, 1] : ({0}, {1}) -> {r}", [a, b], np.einsum("bmk,kbn->nm", a, b), tolerance=1e-5)
    suite.case("outer", "colossal.contract %0 [0], %1 [1] -> [0, 1] : ({0}, {1}) -> {r}", [ramp((2,)), ramp((3,))], np.outer(ramp((2,)), ramp((3,))))
    for spatial in (1, 2, 3):
        for group in (1, 2):
            size = (5, 6, 4)[:spatial]
            x, w, bias = ramp((2, 4) + size, seed=20), ramp((6, 4 // group) + (3, 2, 2)[:spatial], seed=21), ramp((6,), seed=22)
            strides, dilations, pads = (2, 1, 1)[:spatial], (1, 2, 1)[:spatial], (1, 0, 1)[:spatial] + (0, 2, 1)[:spatial]
            text = (f"colossal.conv(%0, %1, %2) {{{{strides = array<i64: {str(strides)[1:-1].rstrip(',')}>, dilations = array<i64: {str(dilations)[1:-1].rstrip(',')}>, "
                    f"pads = array<i64: {str(pads)[1:-1].rstrip(',')}>, group = {group} : i64}}}} : ({{0}}, {{1}}, {{2}}) -> {{r}}")
            attributes = dict(strides=strides, dilations=dilations, pads=pads, group=group)
            suite.case(f"conv_{spatial}d_{group}", text, [x, w, bias], torch_conv(x, w, bias, **attributes), tolerance=1e-5)
            w = ramp((4, 6 // group) + (3, 2, 2)[:spatial], seed=23)
            y = torch_conv_transpose(x, w, bias, **attributes)
            suite.case(f"conv_transpose_{spatial}d_{group}", text.replace("conv(", "conv_transpose("), [x, w, bias], y, tolerance=1e-5)
    x, w = ramp((1, 2, 4, 4), np.float16, seed=24), ramp((3, 2, 3, 3), np.float16, seed=25)
    plain = dict(strides=(1, 1), dilations=(1, 1), pads=(1, 1, 1, 1), group=1)
    y = torch_conv(x.astype(np.float64), w.astype(np.float64), None, **plain).astype(np.float16)
    suite.case("conv_f16", "colossal.conv(%0, %1) {{strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 1 : i64}} : ({0}, {1}) -> {r}", [x, w], y)
    suite.write()


def torch_conv(x, w, bias, strides, dilations, pads, group):
    """By the definition, over padded input."""
    rank = len(strides)
    x = np.pad(x, [(0, 0), (0, 0)] + [(pads[d], pads[rank + d]) for d in range(rank)]).astype(np.float64)
    out = [(x.shape[2 + d] - dilations[d] * (w.shape[2 + d] - 1) - 1) // strides[d] + 1 for d in range(rank)]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    per_group, channels = w.shape[0] // group, w.shape[1]
    for o in range(w.shape[0]):
        g = o // per_group
        for tap in np.ndindex(*w.shape[2:]):
            window = tuple(slice(tap[d] * dilations[d], tap[d] * dilations[d] + (out[d] - 1) * strides[d] + 1, strides[d]) for d in range(rank))
            patch = x[(slice(None), slice(g * channels, (g + 1) * channels)) + window]
            y[:, o] += np.tensordot(patch, w[(o, slice(None)) + tap].astype(np.float64), ([1], [0]))
        if bias is not None:
            y[:, o] += bias[o]
    return y.astype(w.dtype)


def torch_conv_transpose(x, w, bias, strides, dilations, pads, group):
    """By scattering each input element, then cropping the pads."""
    rank = len(strides)
    full = [(x.shape[2 + d] - 1) * strides[d] + dilations[d] * (w.shape[2 + d] - 1) + 1 for d in range(rank)]
    per_group, channels = x.shape[1] // group, w.shape[1]
    y = np.zeros((x.shape[0], channels * group, *full))
    for i in range(x.shape[1]):
        g = i // per_group
        for tap in np.ndindex(*w.shape[2:]):
            window = tuple(slice(tap[d] * dilations[d], tap[d] * dilations[d] + (x.shape[2 + d] - 1) * strides[d] + 1, strides[d]) for d in range(rank))
            for o in range(channels):
                y[(slice(None), g * channels + o) + window] += x[:, i].astype(np.float64) * float(w[(i, o) + tap])
    y = y[(slice(None), slice(None)) + tuple(slice(pads[d], full[d] - pads[rank + d]) for d in range(rank))]
    if bias is not None:
        y += bias.reshape((1, -1) + (1,) * rank)
    return y.astype(w.dtype)


def attend(q, k, v, scale, mask=None, causal=None, softcap=0.0, guard=False, key_count=None):
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    k, v = (np.repeat(a, q.shape[1] // a.shape[1], axis=1) for a in (k, v))
    s = scale * np.einsum("bhid,bhjd->bhij", q, k)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    if mask is not None:
        s = np.where(mask, s, -INF) if mask.dtype == np.bool_ else s + mask.astype(np.float64)
    i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
    if causal is not None:
        s = np.where(j <= i + causal, s, -INF)
    if key_count is not None:
        s = np.where(j < key_count, s, -INF)
    with np.errstate(all="ignore"):
        m = s.max(-1, keepdims=True)
        p = np.exp(s - np.where(np.isinf(m), 0, m))
        p = p / p.sum(-1, keepdims=True)
    if guard:
        p = np.where(np.isneginf(m), 0, p)
    return np.einsum("bhij,bhjd->bhid", p, v)


def attention():
    suite = Suite("attention")
    for dtype in FLOATS:
        q, k, v = ramp((2, 4, 3, 4), dtype, seed=30), ramp((2, 2, 5, 4), dtype, seed=31), ramp((2, 2, 5, 3), dtype, seed=32)
        suite.case(f"plain_{NAMES[q.dtype]}", "colossal.attention(%0, %1, %2) {{scale = 5.0e-1 : f64}} : ({0}, {1}, {2}) -> {r}", [q, k, v],
                   attend(q, k, v, 0.5).astype(dtype), tolerance=4 * TOLERANCE[NAMES[q.dtype]])
    q, k, v = ramp((1, 2, 3, 4), seed=33), ramp((1, 1, 5, 4), seed=34), ramp((1, 1, 5, 3), seed=35)
    def add(name, attributes, expected, mask=None):
        text = f"colossal.attention(%0, %1, %2{', mask %3' if mask is not None else ''}) {{{{scale = 5.0e-1 : f64{attributes}}}}} : ({{0}}, {{1}}, {{2}}{', {3}' if mask is not None else ''}) -> {{r}}"
        suite.case(name, text, [q, k, v] + ([mask] if mask is not None else []), expected.astype(np.float32), tolerance=1e-5)
    add("causal", ", causal = true, causal_offset = 1 : i64", attend(q, k, v, 0.5, causal=1))
    add("softcap", ", softcap = 7.0e-1 : f64", attend(q, k, v, 0.5, softcap=0.7))
    float_mask = ramp((3, 5), seed=36)
    add("mask_float", "", attend(q, k, v, 0.5, mask=float_mask), float_mask)
    boolean = np.array([[[True, False, True, True, False]], [[False] * 5]])
    add("mask_bool", "", attend(q, k, v, 0.5, mask=boolean), boolean)
    add("mask_guard", ", guard = true", attend(q, k, v, 0.5, mask=boolean, guard=True), boolean)
    add("hidden_guard", ", causal = true, causal_offset = -2 : i64, guard = true", attend(q, k, v, 0.5, causal=-2, guard=True))
    for dtype in FLOATS:
        x = ramp((2, 3, 8), dtype, seed=37)
        for name, turn in (("all", 4), ("part", 2)):
            c, s = ramp((3, turn), dtype, seed=38), ramp((3, turn), dtype, seed=39)
            w = x.astype(np.float64)
            for interleaved in (False, True):
                y = w.copy()
                a, b = (w[..., 0:2 * turn:2], w[..., 1:2 * turn:2]) if interleaved else (w[..., :turn], w[..., turn:2 * turn])
                first, second = a * c.astype(np.float64) - b * s.astype(np.float64), b * c.astype(np.float64) + a * s.astype(np.float64)
                if interleaved:
                    y[..., 0:2 * turn:2], y[..., 1:2 * turn:2] = first, second
                else:
                    y[..., :turn], y[..., turn:2 * turn] = first, second
                text = f"colossal.rotary(%0, %1, %2){' {{interleaved = true}}' if interleaved else ''} : ({{0}}, {{1}}, {{2}}) -> {{r}}"
                suite.case(f"rotary_{name}_{'pairs' if interleaved else 'halves'}_{NAMES[x.dtype]}", text, [x, c, s], y.astype(dtype))
    suite.write()


# --- pooling ----------------------------------------------------------------------------------------------------------

def array_text(values):
    return "array<" + ("i64" if isinstance(values[0], int) else "f64") + ": " + ", ".join(map(str, values)) + ">"


def pool_reference(kind, x, kernel, strides, dilations, pads, out, include=False, p=2, column_major=False):
    y, places = np.zeros(x.shape[:2] + tuple(out)), np.zeros(x.shape[:2] + tuple(out), np.int64)
    rank = len(kernel)
    for at in np.ndindex(*y.shape):
        inside, padded = [], 0
        for tap in np.ndindex(*kernel):
            place = [at[2 + d] * strides[d] - pads[d] + tap[d] * dilations[d] for d in range(rank)]
            if all(-pads[d] <= place[d] < x.shape[2 + d] + pads[rank + d] for d in range(rank)):
                padded += 1
            if all(0 <= place[d] < x.shape[2 + d] for d in range(rank)):
                inside.append((at[0], at[1], *place))
        values = [float(x[i]) for i in inside]
        if kind == "max":
            best = int(np.argmax(values))
            y[at] = values[best]
            flat = inside[best]
            order = (list(range(2)) + list(range(rank + 1, 1, -1))) if column_major else range(rank + 2)
            place = 0
            for d in order:
                place = place * x.shape[d] + flat[d]
            places[at] = place
        elif kind == "average":
            y[at] = sum(values) / (padded if include else len(inside))
        else:
            y[at] = sum(abs(v)**p for v in values)**(1 / p)
    return y.astype(x.dtype), places


def pooling():
    suite = Suite("pooling")
    settings = {"plain": ((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (2, 3)), "padded": ((3, 2), (1, 2), (1, 1), (1, 1, 1, 0), (5, 3)),
                "dilated": ((2, 2), (1, 1), (2, 3), (0, 1, 0, 1), (3, 5)), "ceil": ((3, 3), (2, 2), (1, 1), (1, 1, 1, 1), (3, 4))}
    for name, (kernel, strides, dilations, pads, out) in settings.items():
        common = f"kernel = {array_text(kernel)}, strides = {array_text(strides)}, dilations = {array_text(dilations)}, pads = {array_text(pads)}"
        for dtype in (np.float32, np.float16, np.float64):
            x = ramp((2, 3, 5, 6), dtype, seed=40)
            for kind, include in (("max", False), ("average", False), ("average", True), ("lp", False)):
                y, _ = pool_reference(kind, x, kernel, strides, dilations, pads, out, include)
                more = ", count_include_pad = true" if include else ""
                suite.case(f"{kind}_{name}_{include}_{NAMES[x.dtype]}", f"colossal.pool {kind} %0 {{{{{common}{more}}}}} : {{0}} -> {{r}}", [x], y)
        for column_major in (False, True):
            x = ramp((2, 3, 5, 6), seed=41).round()
            y, places = pool_reference("max", x, kernel, strides, dilations, pads, out, column_major=column_major)
            more = ", column_major = true" if column_major else ""
            suite.case(f"max_indices_{name}_{column_major}", f"colossal.pool max %0 {{{{{common}{more}}}}} : {{0}} -> {{r}}, {{s}}", [x], [y, places])
    x = ramp((1, 1, 6), np.int8, seed=42)
    y, _ = pool_reference("max", x, (2,), (2,), (1,), (0, 0), (3,))
    suite.case("max_i8", "colossal.pool max %0 {{kernel = array<i64: 2>, strides = array<i64: 2>, dilations = array<i64: 1>, pads = array<i64: 0, 0>}} : {0} -> {r}", [x], y)
    x = ramp((1, 1, 6), seed=43)
    for p in (1, 3):
        y, _ = pool_reference("lp", x, (2,), (2,), (1,), (0, 0), (3,), p=p)
        suite.case(f"lp_{p}", f"colossal.pool lp %0 {{{{kernel = array<i64: 2>, strides = array<i64: 2>, dilations = array<i64: 1>, pads = array<i64: 0, 0>, p = {p} : i64}}}} : {{0}} -> {{r}}", [x], y)
    suite.write()


def resize():
    suite = Suite("resize")
    x = ramp((1, 1, 4, 5), seed=50)
    def add(name, scales, mode, coordinates, nearest="round_prefer_floor", roi=None, cubic=-0.75, exclude=0, antialias=0, extrapolation=0.0, data=x):
        rois = None if roi is None else np.array(roi, np.float32)
        y = onnx_run("Resize", [data, rois, np.array(scales, np.float32)], mode=mode, coordinate_transformation_mode=coordinates, nearest_mode=nearest,
                     cubic_coeff_a=cubic, exclude_outside=exclude, antialias=antialias, extrapolation_value=extrapolation)[0].astype(data.dtype)
        exact = [float(np.float32(s)) for s in scales]
        text = (f"colossal.resize %0 {{{{mode = \"{mode}\", coordinates = \"{coordinates}\", nearest = \"{nearest}\", scales = {array_text(exact)}, "
                + (f"roi = {array_text([float(np.float32(r)) for r in roi])}, " if roi else "")
                + f"cubic_coeff = {cubic:.4e} : f64, exclude_outside = {str(bool(exclude)).lower()}, antialias = {str(bool(antialias)).lower()}, extrapolation = {extrapolation:.4e} : f64}}}} : {{0}} -> {{r}}")
        suite.case(name, text, [data], y, tolerance=2e-5)
    up, down = (1.0, 1.0, 2.0, 1.625), (1.0, 1.0, 0.5, 0.75)
    for coordinates in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"):
        # The reference takes align_corners' last index from the scales; where they are not exact it is off by rounding.
        exact = coordinates == "align_corners"
        for label, scales in (("up", (1.0, 1.0, 2.0, 2.0) if exact else up), ("down", (1.0, 1.0, 0.5, 1.0) if exact else down)):
            for mode in ("linear", "cubic"):
                add(f"{mode}_{coordinates}_{label}", scales, mode, coordinates)
            for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
                add(f"nearest_{nearest}_{coordinates}_{label}", scales, "nearest", coordinates, nearest)
    add("cubic_exclude", up, "cubic", "half_pixel", exclude=1)
    add("cubic_coeff", up, "cubic", "half_pixel", cubic=-0.5)
    for mode in ("linear", "cubic"):
        add(f"{mode}_antialias", (1.0, 1.0, 0.6, 0.5), mode, "half_pixel", antialias=1)
        add(f"{mode}_antialias_up", up, mode, "half_pixel", antialias=1)
        add(f"{mode}_crop", (1.0, 1.0, 1.5, 0.8), mode, "tf_crop_and_resize", roi=[0, 0, 0.25, 0.125, 1, 1, 1.25, 0.875], extrapolation=7.5)
    add("cubic_antialias_exclude", (1.0, 1.0, 0.6, 0.5), "cubic", "half_pixel", antialias=1, exclude=1)
    add("nearest_u8", (1.0, 1.0, 2.0, 2.0), "nearest", "asymmetric", "floor", data=ramp((1, 1, 2, 3), np.uint8))
    add("linear_1d", (1.0, 1.0, 2.5), "linear", "half_pixel", data=ramp((1, 2, 4), seed=51))
    suite.write()


if __name__ == "__main__":
    np.seterr(over="ignore")
    for make in (elementwise, movement, indexing, reduction, normalization, contraction, attention, pooling, resize):
        make()
