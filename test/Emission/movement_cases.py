"""What moves and looks up elements, against NumPy."""
import numpy as np

from case_suite import FLOATS, INTEGERS, is_float, NAMES, onnx_run, ramp, Suite


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
