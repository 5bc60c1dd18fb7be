"""Narrow types: every code read, every boundary between two codes written, and movement, against ml_dtypes."""
import numpy as np

from case_suite import NAMES, NARROW_FLOATS, NARROW_INTEGERS, Suite

CAST = "colossal.elementwise cast(%0) : ({0}) -> {r}"
INF, NAN = float("inf"), float("nan")


def codes(name):
    return np.arange(16 if name == "f4E2M1FN" else 256, dtype=np.uint8).view(NARROW_FLOATS[name])


def boundaries(values):
    """All values, the middles between neighbours, and what lies closest on both sides of these."""
    values = np.unique(values[np.isfinite(values)]).astype(np.float32)
    middles = ((values[1:].astype(np.float64) + values[:-1]) / 2).astype(np.float32)
    near = [np.nextafter(middles, np.float32(INF)), np.nextafter(middles, np.float32(-INF))]
    return np.concatenate([values, middles] + near)


def saturated(x, dtype):
    greatest = float(np.max(np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32), initial=0, where=np.isfinite(
        np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32))))
    return np.where(np.isnan(x), x, np.clip(x, -greatest, greatest)).astype(np.float32)


def powers(x, mode):
    """The exponents of non-negative numbers, biased, saturated."""
    fraction, exponent = np.frexp(x.astype(np.float64))  # fraction in [0.5, 1)
    whole = fraction == 0.5
    code = {"up": exponent - whole, "down": exponent - 1, "nearest": exponent - (fraction < 0.75)}[mode] + 127
    return np.clip(np.where(x == 0, 0, np.where(np.isinf(x), 254, code)), 0, 254).astype(np.uint8)


def floats(suite):
    for name, dtype in NARROW_FLOATS.items():
        every = codes(name)
        suite.case(f"cast_{name}_f32", CAST, [every], every.astype(np.float32), tolerance=0)
        suite.case(f"cast_{name}_f16", CAST, [every], every.astype(np.float32).astype(np.float16), tolerance=0)
        if name == "f8E8M0FNU":
            continue
        x = np.concatenate([boundaries(every.astype(np.float32)),
                            np.array([0.0, -0.0, NAN, INF, -INF, 1e30, -1e30, 1e-30, -1e-30, 1e-45, 464, 465, 248, 61440, 61439], np.float32)])
        suite.case(f"cast_f32_{name}", CAST, [x], saturated(x, dtype).astype(dtype), tolerance=0)
        small = x[np.abs(x) < 60000][::7].astype(np.float16)
        suite.case(f"cast_f16_{name}", CAST, [small], saturated(small.astype(np.float32), dtype).astype(dtype), tolerance=0)
        if name != "f4E2M1FN":
            suite.case(f"cast_open_f32_{name}", "colossal.elementwise cast(%0) {{params = array<f64: 0.0, 0.0>}} : ({0}) -> {r}",
                       [x], x.astype(dtype), tolerance=0)
        numbers = np.array([0, 1, 3, -3, 6, 100, -100], np.int32)
        suite.case(f"cast_i32_{name}", CAST, [numbers], saturated(numbers.astype(np.float32), dtype).astype(dtype), tolerance=0)
        suite.case(f"cast_{name}_i1", CAST, [every[:8]], every[:8].astype(np.float32) != 0)
    x = np.array([0, 2.0**-127, 1.5 * 2.0**-127, 2.0**-126, 0.124, 0.125, 0.126, 1, 1.1, 1.49, 1.5, 1.51, 2, 3, 1e30, 3e38, INF], np.float32)
    for place, mode in enumerate(("up", "down", "nearest")):
        suite.case(f"cast_f32_f8E8M0FNU_{mode}", f"colossal.elementwise cast(%0) {{{{params = array<f64: 1.0, {place}.0>}}}} : ({{0}}) -> {{r}}",
                   [x], powers(x, mode).view(NARROW_FLOATS["f8E8M0FNU"]), tolerance=0)


def integers(suite):
    for name, dtype in NARROW_INTEGERS.items():
        width = 1 << int(name[-1])
        low = 0 if name[0] == "u" else -width // 2
        every = np.arange(low, low + width, dtype=np.int32)
        for other in (np.int8, np.int32, np.int64, np.float32, np.float16):
            if low < 0 or other is not np.int8:
                suite.case(f"cast_{name}_{NAMES[np.dtype(other)]}", CAST, [every.astype(dtype)], every.astype(other), tolerance=0)
            wide = np.arange(-9, 20).astype(other)  # modulo 2^width
            wrapped = (wide.astype(np.int32) - low) % width + low
            suite.case(f"cast_{NAMES[np.dtype(other)]}_{name}", CAST, [wide], wrapped.astype(dtype), tolerance=0)
    suite.case("cast_ui4_f8E4M3FN", CAST, [np.arange(16).astype(NARROW_INTEGERS["ui4"])],
               np.arange(16).astype(NARROW_FLOATS["f8E4M3FN"]), tolerance=0)
    suite.case("cast_f8E5M2_i4", CAST, [np.array([-8, -3.5, 0, 1, 7]).astype(NARROW_FLOATS["f8E5M2"])],
               np.array([-8, -3, 0, 1, 7]).astype(NARROW_INTEGERS["i4"]), tolerance=0)


def bits(suite):
    def add(x, target):
        bitcast = "colossal.elementwise bitcast(%0) : ({0}) -> {r}"
        suite.case(f"bitcast_{NAMES[x.dtype]}_{NAMES[np.dtype(target)]}", bitcast, [x], x.view(target), tolerance=0)
    x = np.array([0, -0.0, 1, -2.5, INF, -INF, 3.25], np.float32)
    add(x, np.int32), add(x.view(np.int32), np.float32), add(x, np.uint32)
    add(x.astype(np.float64), np.int64), add(x.astype(np.float64).view(np.uint64), np.float64)
    add(x.astype(np.float16), np.int16), add(x.astype(np.float16).view(np.uint16), np.float16)
    add(np.array([-1, 5], np.int8), np.uint8), add(np.array([True, False]), np.uint8), add(np.array([1, 0], np.uint8), np.bool_)
    for name in ("f8E4M3FN", "f8E5M2FNUZ"):
        add(codes(name), np.uint8), add(codes(name).view(np.uint8), NARROW_FLOATS[name])
    nibbles = np.arange(-8, 8, dtype=np.int8)
    suite.case("bitcast_i4_ui4", "colossal.elementwise bitcast(%0) : ({0}) -> {r}", [nibbles.astype(NARROW_INTEGERS["i4"])],
               (nibbles % 16).astype(NARROW_INTEGERS["ui4"]))
    suite.case("bitcast_ui4_f4E2M1FN", "colossal.elementwise bitcast(%0) : ({0}) -> {r}", [np.arange(16).astype(NARROW_INTEGERS["ui4"])],
               codes("f4E2M1FN"))


def moves(suite):
    for name, dtype in (NARROW_FLOATS | NARROW_INTEGERS).items():
        x = (np.arange(70) % 2).astype(np.int8).astype(dtype).reshape(2, 35) if dtype in NARROW_INTEGERS.values() else \
            np.resize(codes(name)[:7], 70).reshape(2, 35)
        suite.case(f"transpose_{name}", "colossal.transpose %0 [1, 0] : {0} -> {r}", [x], x.T.copy())
        suite.case(f"concat_{name}", "colossal.concat %0, %1 {{axis = 0 : i64}} : ({0}, {1}) -> {r}", [x, x[:1]],
                   np.concatenate([x, x[:1]]))
        suite.case(f"gather_{name}", "colossal.gather %0[%1] {{axis = 1 : i64}} : {0}, {1} -> {r}", [x, np.array([3, -1, 0])],
                   x[:, [3, -1, 0]])
        suite.case(f"select_{name}", "colossal.elementwise select(%0, %1, %2) : ({0}, {1}, {2}) -> {r}",
                   [np.arange(35) % 3 == 0, x, x[1]], np.where((np.arange(35) % 3 == 0)[None], x.view(np.uint8), x[1].view(np.uint8)).view(dtype))


def narrow():
    suite = Suite("narrow")
    with np.errstate(all="ignore"):
        floats(suite)
        integers(suite)
        bits(suite)
        moves(suite)
    suite.write()
