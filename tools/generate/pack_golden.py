"""Packs golden arrays, one file a case: every folder of .npy files in ROOT becomes a .npz file with the same members.

    python3 tools/generate/pack_golden.py ROOT

Members are stored, not deflated, in alphabetical order and without dates: the same arrays make the same bytes.
"""

import os
import shutil
import sys
import zipfile

root = sys.argv[1]
for folder in sorted(entry.path for entry in os.scandir(root) if entry.is_dir()):
    with zipfile.ZipFile(folder + ".npz", "w") as archive:
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as file:
                archive.writestr(zipfile.ZipInfo(name), file.read())
    shutil.rmtree(folder)
