"""Compiles the `.proto` files into the one file that the server reads; run by `make protos`."""

from __future__ import annotations

import tempfile
from importlib.resources import files
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

FOLDER = Path(__file__).resolve().parents[3] / "api" / "core"
COMPILED = FOLDER / "protos.binpb"


def compiled() -> bytes:
    """All files, and what they import, as a serialized `FileDescriptorSet`."""
    root = FOLDER / "protos"
    sources = sorted(str(path.relative_to(root)) for path in root.rglob("*.proto"))
    with tempfile.NamedTemporaryFile(suffix=".binpb") as made:
        arguments = [
            "protoc",
            f"--proto_path={root}",
            f"--proto_path={files('grpc_tools') / '_proto'}",
            f"--descriptor_set_out={made.name}",
            "--include_imports",
            "--include_source_info",
            *sources,
        ]
        if protoc.main(arguments):
            raise SystemExit("the .proto files do not compile: see above")
        found = FileDescriptorSet.FromString(Path(made.name).read_bytes())
    return found.SerializeToString(deterministic=True)


if __name__ == "__main__":
    COMPILED.write_bytes(compiled())
