"""Checks every #include in src/ against the table of modules in docs/design.md.

    includes_test.py ROOT

A module may include itself, what its row names, and public headers; where its row says that it is
without LibTorch, neither LibTorch's headers nor headers that lead to them. A row may name only rows
above it, so that includes point in one direction. Locks are those of base/thread_annotations.h, in
modules without LibTorch: there Clang checks them (./check clang).
"""

import re
import sys
from pathlib import Path

ROW = re.compile(r"^\| `([\w/]+)` \|.*\| (yes|no) \| ([\w/`, ]*) \|$")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
LOCKS = "base/thread_annotations.h"
UNCHECKED_LOCKS = ("mutex", "shared_mutex", "condition_variable")
TORCH = ("torch/", "ATen/", "c10/", "c10d/", "caffe2/")


class Module:
    def __init__(self, uses_torch, allowed):
        self.uses_torch = uses_torch
        self.allowed = allowed


def read_table(file):
    modules = {}
    for line in file.read_text().splitlines():
        if row := ROW.match(line):
            name, torch, allowed = row.groups()
            modules[name] = Module(torch == "yes", re.findall(r"[\w/]+", allowed))
    assert "base" in modules and "cli" in modules, f"{file}: the table of modules was not understood"
    return modules


def module_of(path, modules):
    """The row that names the longest part of a path below src/."""
    names = [name for name in modules if path.startswith(name + "/")]
    return max(names, key=len, default=None)


def includes_of(file):
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if include := INCLUDE.match(line):
            yield number, include[1]


def headers_with_torch(folders):
    """Those that include LibTorch, themselves or through others."""
    headers = {
        str(file.relative_to(folder)): [name for _, name in includes_of(file)]
        for folder in folders
        for file in folder.rglob("*.h")
    }
    found = set()
    while True:
        more = {
            header
            for header, names in headers.items()
            if header not in found and any(name.startswith(TORCH) or name in found for name in names)
        }
        if not more:
            return found
        found |= more


def complaints_about(path, name, modules, with_torch):
    module = module_of(path, modules)
    if module is None:
        yield "its folder has no row in the table"
        return
    row = modules[module]
    if not row.uses_torch and (name.startswith(TORCH) or name in with_torch):
        yield f"{module} is without LibTorch and includes {name}"
    if row.uses_torch and name == LOCKS:
        yield f"{module} uses LibTorch, so Clang does not check its locks; put what is locked elsewhere"
    if name in UNCHECKED_LOCKS and path != LOCKS:
        yield f"Clang does not check <{name}>; include {LOCKS}"
    other = module_of(name, modules)
    if other and other != module and other not in row.allowed:
        yield f"{module} may not include {other} ({name})"


def check_direction(modules):
    above = set()
    for name, module in modules.items():
        below = [one for one in module.allowed if one not in above]
        assert not below, f"the row of {name} names what does not stand above it: {', '.join(below)}"
        above.add(name)


def public_complaints(root, with_torch):
    for header in sorted((root / "include/lockstep").glob("*.h")):
        names = [name for _, name in includes_of(header)]
        uses = any("torch::" in line.split("//")[0] for line in header.read_text().splitlines())
        if uses and not any(name.startswith(TORCH) or name in with_torch for name in names):
            yield f"{header.relative_to(root)}: uses torch:: and includes none of LibTorch's headers"


def main(root):
    root = Path(root)
    modules = read_table(root / "docs/design.md")
    check_direction(modules)
    with_torch = headers_with_torch([root / "src", root / "include"])
    files = sorted(file for file in (root / "src").rglob("*") if file.suffix in (".h", ".cpp"))
    assert len(files) > 100, f"only {len(files)} files in {root / 'src'}"
    wrong = [
        f"{file.relative_to(root)}:{number}: {complaint}"
        for file in files
        for number, name in includes_of(file)
        for complaint in complaints_about(str(file.relative_to(root / "src")), name, modules, with_torch)
    ]
    wrong += public_complaints(root, with_torch)
    print("\n".join(wrong))
    assert not wrong, f"{len(wrong)} includes against the table in docs/design.md, listed above"


if __name__ == "__main__":
    main(sys.argv[1])
