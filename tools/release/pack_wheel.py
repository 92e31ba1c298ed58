"""pack_wheel.py WHEEL TREE PLATFORM OUT: the wheel for one platform, with the same bytes for the same inputs.

WHEEL is the pure one, which has the Python files and the metadata; TREE holds what is compiled, as it lies in the package: lib/,
bin/, share/, include/. The result in the folder OUT has the tag py3-none-PLATFORM.
"""
import base64
import hashlib
import os
import sys
import zipfile

DATE = (2020, 1, 1, 0, 0, 0)


def main(wheel: str, tree: str, platform: str, out: str) -> None:
    with zipfile.ZipFile(wheel) as pure:
        files = {name: (pure.read(name), 0o644) for name in pure.namelist() if not name.endswith("/")}
    info = next(name.split("/")[0] for name in files if name.endswith(".dist-info/WHEEL"))
    del files[f"{info}/RECORD"]
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: glofnd tools/release\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"
                              .encode(), 0o644)
    for folder, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(folder, name)
            inside = "glofnd/" + os.path.relpath(path, tree).replace(os.sep, "/")
            with open(path, "rb") as file:
                files[inside] = (file.read(), 0o755 if inside.startswith(("glofnd/bin/", "glofnd/lib/")) else 0o644)
    record = ""
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name][0]).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(files[name][0])}\n"
    files[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), 0o644)
    name = f"{info[:-len('.dist-info')]}-py3-none-{platform}.whl"
    with zipfile.ZipFile(os.path.join(out, name), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for inside in sorted(files, key=lambda n: (n.startswith(info), n)):         # metadata last, as the format asks
            entry = zipfile.ZipInfo(inside, DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | files[inside][1]) << 16
            packed.writestr(entry, files[inside][0])
    print(os.path.join(out, name))


if __name__ == "__main__":
    main(*sys.argv[1:])
