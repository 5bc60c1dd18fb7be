"""Reductions, scans, normalizations and softmax, against NumPy in f64."""
import numpy as np

from case_suite import BF16, FLOATS, INF, INTEGERS, NAMES, NAN, onnx_run, ramp, SIGNED, Suite, TOLERANCE


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
