"""Installs Lockstep, moves it elsewhere, builds examples/ against it and runs what came out.

    install_test.py BUILD_FOLDER [CMAKE_FLAG...]
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[2]


def run(*command, expect=0):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    said = f"{result.stdout}{result.stderr}"
    assert result.returncode == expect, f"{command} ended with {result.returncode}, not {expect}:\n{said}"
    return result


def libraries_of(program):
    lines = run("readelf", "--dynamic", program).stdout.splitlines()
    return [line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line]


def write_data(folder):
    folder.mkdir()
    dice = numpy.random.default_rng(1)
    numpy.save(folder / "x.npy", dice.random((64, 1, 8, 8), dtype=numpy.float32))
    numpy.save(folder / "y.npy", dice.integers(0, 2, 64))


def model_of(program, folder, out, workers):
    flags = ["--data", f"npy:{folder / 'data'}", "--model", "mlp", "--batch", "16", "--steps", "3"]
    result = run(program, "train", *flags, "--workers", workers, "--out", folder / out, "--json")
    return json.loads(result.stdout)["model_sha256"]


def expect_what_help_names(lockstep, installed):
    """Files that help texts name are there, wherever one is."""
    named = set()
    for command in ([], ["train"], ["run"], ["data"], ["workers"], ["list"], ["compare"], ["bench"], ["explain"]):
        text = run(lockstep, *command, "--help").stdout
        named |= set(re.findall(r"\S*(?:recipes|docs|examples|scripts|build)/[\w./-]*\w", text))
    assert len(named) >= 2, named
    for name in named:
        assert Path(name).is_absolute() and Path(name).is_file(), f"{name}, which the help names, is not there"
        assert Path(name).is_relative_to(installed.resolve()), name


def expect_what_docs_name(installed):
    """Links between documents lead somewhere, but for the source's own files."""
    share = installed / "share/lockstep"
    for name in ("LICENSE", "README.md", "SECURITY.md", "recipes/fashion-convnet.toml", "examples/slurm/train.sbatch",
                 "docs/load_checkpoint.py", "docs/save_checkpoint.py", "docs/networks.py", "scripts/packages-build"):
        assert (share / name).is_file(), f"{name} is not installed"
    for page in share.glob("docs/*.md"):
        for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)\s*[)#]", page.read_text()):
            of_source = re.match(r"\.\./(src|tests|bench|include|CONTRIBUTING.md|check|quickstart)", link)
            assert of_source or (page.parent / link).exists(), f"{page.name} links to {link}"


def main(build, *flags):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        run("cmake", "--install", build, "--prefix", folder / "made")
        installed = (folder / "made").rename(folder / "moved")
        lockstep = installed / "bin/lockstep"
        needed = libraries_of(lockstep)
        assert any(name.startswith("liblockstep_core.so.") for name in needed), needed
        assert not any("torch" in name for name in needed), needed
        expect_what_help_names(lockstep, installed)
        expect_what_docs_name(installed)

        examples = folder / "examples"
        settings = [f"-DCMAKE_PREFIX_PATH={installed}", "-DCMAKE_BUILD_TYPE=None"]  # no optimization: it takes long
        run("cmake", "-G", "Ninja", "-S", ROOT / "examples", "-B", examples, *settings, *flags)
        run("cmake", "--build", examples, "--parallel", "2")

        refusal = run(lockstep, "run", "-n", "2", "--", examples / "mnist_ddp", folder, expect=2).stderr
        assert "contains no MNIST" in refusal, refusal

        write_data(folder / "data")
        models = {
            model_of(lockstep, folder, "theirs", workers=1),
            model_of(examples / "own_lockstep", folder, "own", workers=2),
        }
        assert len(models) == 1, f"the two programs trained different models: {models}"


if __name__ == "__main__":
    main(*sys.argv[1:])
