"""The cases of one file, and what the families of cases share: types, literals, operands, ONNX's reference evaluator."""
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
NARROW_FLOATS = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "f8E8M0FNU": ml_dtypes.float8_e8m0fnu, "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}
NARROW_INTEGERS = {"i4": ml_dtypes.int4, "ui4": ml_dtypes.uint4, "i2": ml_dtypes.int2, "ui2": ml_dtypes.uint2}
NAMES |= {np.dtype(dtype): name for name, dtype in (NARROW_FLOATS | NARROW_INTEGERS).items()}
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
        if name in NARROW_FLOATS:
            return f"0x{int(np.asarray(x).view(np.uint8)):0{1 if name == 'f4E2M1FN' else 2}X}"
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


def ramp(shape, dtype=np.float32, seed=None):
    count = math.prod(shape)
    if seed is None:
        return np.arange(count).astype(dtype).reshape(shape)
    values = np.random.default_rng(seed).standard_normal(count)
    return (values if is_float(dtype) else values * 10).astype(dtype).reshape(shape)


def array_text(values):
    return "array<" + ("i64" if isinstance(values[0], int) else "f64") + ": " + ", ".join(map(str, values)) + ">"
