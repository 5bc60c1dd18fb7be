"""Elementwise ops of one, two and three operands, and casts, against NumPy in f64."""
import math

import numpy as np

from case_suite import BF16, FLOATS, INF, INTEGERS, is_float, NAMES, NAN, SIGNED, Suite


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
