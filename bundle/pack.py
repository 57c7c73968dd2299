"""Packs the bundle for the build: a deterministic tar as a C array, and its digest.

    python3 pack.py FOLDER OUTPUT_FOLDER

Writes bundle_image.inc (`kBundleTar`, `kBundleDigest`), bundle.tar and bundle.digest. The digest is
SHA-256 over the sorted (name, mode, contents); times, owners and order are fixed, so that the same
files give the same bytes everywhere, and .pyc files made on a host stay valid.
"""
import hashlib
import io
import os
import sys
import tarfile

MODE = 0o644
TIME = 1_500_000_000


def sources(folder: str) -> list:
    """(name, contents) of the programs, by name."""
    names = sorted(name for name in os.listdir(folder) if name.startswith("albedo_") and name.endswith(".py"))
    found = []
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            found.append((name, file.read()))
    return found


def digest_of(files: list) -> str:
    digest = hashlib.sha256()
    for name, contents in files:
        digest.update(f"{name}\0{MODE:o}\0{len(contents)}\0".encode())
        digest.update(contents)
    return digest.hexdigest()


def tar_of(files: list) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, contents in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(contents), MODE, TIME
            tar.addfile(entry, io.BytesIO(contents))
    return out.getvalue()


def write_if_changed(path: str, data: bytes) -> None:
    """Nothing is built anew when nothing changed."""
    try:
        with open(path, "rb") as file:
            if file.read() == data:
                return
    except FileNotFoundError:
        pass
    with open(path, "wb") as file:
        file.write(data)


def main() -> None:
    folder, output = sys.argv[1:3]
    os.makedirs(output, exist_ok=True)
    files = sources(folder)
    tar, digest = tar_of(files), digest_of(files)
    lines = [",".join(map(str, tar[start:start + 64])) for start in range(0, len(tar), 64)]
    text = "// Made by bundle/pack.py.\nstatic const unsigned char kBundleTar[] = {\n" + ",\n".join(lines) + \
        f"\n}};\nstatic const char kBundleDigest[] = \"{digest}\";\n"
    write_if_changed(os.path.join(output, "bundle.tar"), tar)
    write_if_changed(os.path.join(output, "bundle.digest"), digest.encode())
    write_if_changed(os.path.join(output, "bundle_image.inc"), text.encode())


if __name__ == "__main__":
    main()
