"""Checks that every usage example of the public headers is compiled by a test.

    examples_test.py ROOT

An example is what a documentation comment indents by five spaces or more. Each stands in one of the
files below, but for white space.
"""

import re
import sys
from pathlib import Path

COMPILED = ["tests/public/usage_test.cpp", "tests/virtual_devices/usage_test.cpp", "examples/own_lockstep.cpp"]
COMMENT = re.compile(r"^ *///( ?)(.*)$")


def examples_of(header):
    """Pairs of the number of an example's first line and its text."""
    found = []
    inside = False
    for number, line in enumerate(header.read_text().splitlines(), 1):
        comment = COMMENT.match(line)
        if comment and comment[2].startswith("    "):
            if not inside:
                found.append((number, ""))
            first, text = found[-1]
            found[-1] = (first, text + comment[2] + "\n")
            inside = True
        else:
            inside = bool(inside and comment and comment[2] == "")
    return found


def squeezed(text):
    return re.sub(r"\s+", "", text)


def main(root):
    root = Path(root)
    compiled = [squeezed((root / file).read_text()) for file in COMPILED]
    examples = [
        (header, number, text)
        for header in sorted((root / "include/lockstep").glob("*.h"))
        for number, text in examples_of(header)
    ]
    assert len(examples) > 10, f"only {len(examples)} examples were found"
    missing = [
        f"{header.relative_to(root)}:{number}:\n{text}"
        for header, number, text in examples
        if not any(squeezed(text) in file for file in compiled)
    ]
    print("\n".join(missing))
    assert not missing, f"{len(missing)} examples, listed above, are not in {' or '.join(COMPILED)}"


if __name__ == "__main__":
    main(sys.argv[1])
