"""What Lockstep's libraries are linked with.

    links_test.py LIBRARY

The core, which every command loads, is linked neither with LibTorch nor with an MPI: both take long to load.
"""

import re
import subprocess
import sys

SLOW = ("libtorch", "libc10", "libmpi", "libmpich", "libopen_mpi")

listed = subprocess.run(["readelf", "--dynamic", "--wide", sys.argv[1]], capture_output=True, text=True, check=True)
needed = re.findall(r"\(NEEDED\).*\[(.*)\]", listed.stdout)
assert "libc.so.6" in needed, listed.stdout
slow = [name for name in needed if name.startswith(SLOW)]
assert not slow, f"{sys.argv[1]} is linked with {slow}"
