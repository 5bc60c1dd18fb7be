"""Writes each array of a .npz file as NAME.npy and as NAME.pb (TensorProto).

    as_files.py FILE.npz FOLDER
"""
import pathlib
import sys

import numpy
import onnx.numpy_helper

folder = pathlib.Path(sys.argv[2])
for name, array in numpy.load(sys.argv[1]).items():
    numpy.save(folder / f"{name}.npy", array)
    (folder / f"{name}.pb").write_bytes(onnx.numpy_helper.from_array(array, name).SerializeToString())
