"""Contractions, convolutions and attention, against NumPy."""
import numpy as np

from case_suite import FLOATS, INF, is_float, NAMES, ramp, Suite, TOLERANCE


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
