"""Compiles the hot loops: plain Python files with type annotations, turned to C by Cython.

Every compiled module is listed here and nowhere else. Everything else about the build stands in pyproject.toml.
"""

from Cython.Build import cythonize
from setuptools import Extension, setup

COMPILED = [
    "ottla.records.append",
    "ottla.records.arrow_columns",
    "ottla.records.arrow_data",
    "ottla.records.awaiting",
    "ottla.records.decode_columns",
    "ottla.records.delivery",
    "ottla.records.encode_columns",
    "ottla.records.intake",
    "ottla.records.key_column",
    "ottla.records.partitions",
    "ottla.records.record_parts",
    "ottla.records.split",
    "ottla.schemas.json_columns",
    "ottla.schemas.json_values",
]

setup(
    ext_modules=cythonize(
        [Extension(name, [f"src/{name.replace('.', '/')}.py"], extra_compile_args=["-O3", "-g0"]) for name in COMPILED],
        build_dir="build/cython",
        compiler_directives={
            "language_level": "3",
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "binding": True,
            "embedsignature": True,
        },
    )
)
