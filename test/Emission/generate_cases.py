#!/usr/bin/env python3
"""Writes cases/*.mlir: ops with operands and the results that NumPy, or ONNX's reference evaluator, gives for them.

Each case is a function with one op; its attributes hold the operands' values (`operands`), the results' (`expected`) and
the tolerance (`tolerance`, relative and absolute; NaN equals NaN). Run by hand after a change here; the files are checked
in, so that the tests need no Python.
"""
import numpy as np

from contraction_cases import attention, contraction
from elementwise_cases import elementwise
from movement_cases import indexing, movement
from narrow_cases import narrow
from pooling_cases import pooling, resize
from reduction_cases import normalization, reduction

if __name__ == "__main__":
    np.seterr(over="ignore")
    for make in (elementwise, movement, indexing, reduction, normalization, contraction, attention, pooling, resize, narrow):
        make()
