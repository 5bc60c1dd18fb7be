"""Pools by their definitions; resampling, against ONNX's reference evaluator."""
import math

import numpy as np

from case_suite import array_text, BF16, FLOATS, NAMES, onnx_run, ramp, Suite


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


def pool_gradient_reference(kind, g, x, kernel, strides, dilations, pads, include):
    """The first greatest element gets what its window got, NaN before numbers and the last of several, as PyTorch has it. Beside that, which
    tap of each window is over it, -1 for none."""
    result, rank, taken = np.zeros(x.shape), len(kernel), np.full(g.shape, -1, np.int32)
    for at in np.ndindex(*g.shape):
        inside, padded, taps = [], 0, []
        for number, tap in enumerate(np.ndindex(*kernel)):
            place = [at[2 + d] * strides[d] - pads[d] + tap[d] * dilations[d] for d in range(rank)]
            padded += all(-pads[d] <= place[d] < x.shape[2 + d] + pads[rank + d] for d in range(rank))
            if all(0 <= place[d] < x.shape[2 + d] for d in range(rank)):
                inside.append((at[0], at[1], *place))
                taps.append(number)
        if kind == "average":
            for place in inside:
                result[place] += float(g[at]) / (padded if include else len(inside))
        elif inside:
            best = 0
            for i in range(1, len(inside)):
                if x[inside[i]] > x[inside[best]] or np.isnan(x[inside[i]]):
                    best = i
            result[inside[best]] += float(g[at])
            taken[at] = taps[best]
    return result.astype(x.dtype), taken


def pool_gradient(suite):
    """Equal elements and NaN; windows that overlap, lie apart, in the padding alone, and that leave elements out."""
    settings = {"overlapping": ((3, 2), (2, 1), (1, 1), (1, 1, 1, 0), (3, 6)), "apart": ((2, 1), (3, 2), (1, 1), (0, 0, 0, 0), (2, 3)),
                "dilated": ((2, 2), (1, 2), (2, 3), (1, 0, 1, 0), (5, 2)), "outside": ((1, 1), (2, 2), (1, 1), (1, 1, 1, 1), (4, 4))}
    for name, (kernel, strides, dilations, pads, out) in settings.items():
        common = f"kernel = {array_text(kernel)}, strides = {array_text(strides)}, dilations = {array_text(dilations)}, pads = {array_text(pads)}"
        for dtype in (np.float32, BF16):
            x, g = ramp((1, 2, 5, 6), np.float32, seed=45).round().astype(dtype), ramp((1, 2, *out), dtype, seed=46)
            x[0, 1, 1, 1] = x[0, 1, 2, 1] = x[0, 1, 4, 4] = np.nan
            x[0, 0, 2:] = -np.inf
            y, taps = pool_gradient_reference("max", g, x, kernel, strides, dilations, pads, False)
            suite.case(f"taps_{name}_{NAMES[x.dtype]}", f"colossal.pool_taps %0 {{{{{common}}}}} : {{0}} -> {{r}}", [x], taps)
            suite.case(f"gradient_max_{name}_{NAMES[x.dtype]}", f"colossal.pool_gradient max %0 at %1 {{{{{common}}}}} : {{0}}, {{1}} -> {{r}}", [g, taps], y)
            if name == "outside":
                continue # the average of nothing
            for include in (False, True):
                y, _ = pool_gradient_reference("average", g, x, kernel, strides, dilations, pads, include)
                suite.case(f"gradient_average_{name}_{include}_{NAMES[x.dtype]}",
                           f"colossal.pool_gradient average %0 {{{{{common}, count_include_pad = {str(include).lower()}}}}} : {{0}} -> {{r}}", [g], y)


def roi_max_pool(suite):
    """Regions inside, cut on each side, outside, of one element, upside down; ties of rounding; an image out of range."""
    regions = [[0, 0, 0, 5, 4], [1, 2, 1, 4, 3], [1, -3, -2, 2, 1], [0, 3, 3, 9, 8], [0, 20, 20, 25, 24], [1, 2, 2, 2, 2],
               [0, 4, 3, 1, 0], [1, 0.5, 2.5, 3.5, 4.5], [1, -0.5, -1.5, 1.5, 0.5], [7, 1, 1, 3, 3], [-1, 1, 1, 3, 3]]
    away = lambda v: math.copysign(math.floor(abs(v) + 0.5), v)
    for dtype in FLOATS:
        x, rois = ramp((2, 3, 5, 6), dtype, seed=44), np.array(regions, dtype)
        for scale, bins in ((1.0, (2, 3)), (0.5, (1, 1)), (1.5, (3, 9))):
            y = np.zeros((len(regions), 3, *bins), dtype)
            for r, (image, *corners) in enumerate(rois.astype(np.float64)):
                left, top, right, bottom = (away(c * scale) for c in corners)
                image = min(max(int(image), 0), 1)
                for p in range(bins[0]):
                    for q in range(bins[1]):
                        high, wide = max(bottom - top + 1, 1), max(right - left + 1, 1)
                        rows = (max(p * high // bins[0] + top, 0), min(-(-(p + 1) * high // bins[0]) + top, 5))
                        columns = (max(q * wide // bins[1] + left, 0), min(-(-(q + 1) * wide // bins[1]) + left, 6))
                        part = x[image, :, int(rows[0]):max(int(rows[1]), 0), int(columns[0]):max(int(columns[1]), 0)]
                        if part.size:
                            y[r, :, p, q] = part.max((1, 2))
            suite.case(f"roi_max_{bins[0]}x{bins[1]}_{NAMES[x.dtype]}",
                       f"colossal.roi_max_pool(%0, %1) {{{{scale = {scale} : f64}}}} : ({{0}}, {{1}}) -> {{r}}", [x, rois], y)


def pooling():
    suite = Suite("pooling")
    settings = {"plain": ((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), (2, 3)), "padded": ((3, 2), (1, 2), (1, 1), (1, 1, 1, 0), (5, 3)),
                "dilated": ((2, 2), (1, 1), (2, 3), (0, 1, 0, 1), (3, 5)), "ceil": ((3, 3), (2, 2), (1, 1), (1, 1, 1, 1), (3, 4))}
    for name, (kernel, strides, dilations, pads, out) in settings.items():
        common = f"kernel = {array_text(kernel)}, strides = {array_text(strides)}, dilations = {array_text(dilations)}, pads = {array_text(pads)}"
        for dtype in FLOATS:
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
    roi_max_pool(suite)
    pool_gradient(suite)
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
