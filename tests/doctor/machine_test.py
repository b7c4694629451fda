"""What `lockstep doctor` finds on machines that really have something wrong, each set up here and removed again.

    machine_test.py LOCKSTEP TEST

Ends with 77, which ctest shows as skipped, where a machine cannot be set up, and says why.
"""

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/beds"), str(ROOT / "tests")]
import cgroup  # noqa: E402
import hosts  # noqa: E402
import mounts  # noqa: E402
import ssh_server  # noqa: E402
from named_tests import SKIPPED, run_named  # noqa: E402

HANG_SECONDS = 60  # nothing here takes so long unless it hangs
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "SLURM_", "OMPI_", "PMI")
THIRTY_TWO_GPUS = """
    mount -t tmpfs tmpfs /sys/bus/pci/devices
    for i in $(seq 32); do
      mkdir /sys/bus/pci/devices/$i
      echo 0x10de > /sys/bus/pci/devices/$i/vendor
      echo 0x030200 > /sys/bus/pci/devices/$i/class
    done
"""


def skip(needs, reason):
    print(f"no {needs} here: {reason}")
    sys.exit(SKIPPED)


class Answer:
    def __init__(self, ended):
        assert ended.returncode in (0, 1), ended
        parsed = json.loads(ended.stdout)
        self.facts, self.findings = parsed["facts"], parsed["findings"]
        problems = [each for each in self.findings if each["severity"] == "problem"]
        assert ended.returncode == (1 if problems else 0), ended

    def ids(self):
        return [each["id"] for each in self.findings]

    def expect(self, name, severity, *parts):
        found = [each for each in self.findings if each["id"] == name]
        assert found, (name, self.findings)
        assert found[0]["severity"] == severity, found
        text = f"{found[0]['what']} {found[0]['why']} {found[0]['do']}"
        for part in parts:
            assert part in text, (part, found)


def ask(lockstep, *flags, around=lambda command: command, **variables):
    """The answer of the program, which `around` may start in other surroundings."""
    kept = os.environ.items()
    environment = {name: value for name, value in kept if not name.startswith((*LAUNCHERS, "OPENBLAS_"))}
    command = around([str(lockstep), "doctor", "--json", *flags])
    return Answer(subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, timeout=HANG_SECONDS))


def every_area_has_facts(lockstep):
    answer = ask(lockstep)
    areas = ["processors", "memory", "devices", "blas", "versions", "ranks", "network", "clock"]
    assert list(answer.facts) == areas, list(answer.facts)
    assert answer.facts["versions"]["libtorch"], answer.facts
    assert answer.facts["network"]["shared_memory"]["works"], answer.facts
    assert os.path.exists(answer.facts["blas"]["file"]), answer.facts
    text = subprocess.run([lockstep, "doctor"], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert all(f"{area}\n" in text.stdout for area in areas), text.stdout
    assert all(len(line) <= 80 for line in text.stdout.splitlines() if " /" not in line), text.stdout


def wrong_flags_are_refused(lockstep):
    for flags, said in [(["--timeout", "0"], "expected 0.1 to 3600"), (["--device", "cpu"], "--self-test"),
                        (["--self-test", "--device", "virtuel"], "did you mean 'virtual'"), (["--hosts", "a,,a"], "listed twice"),
                        (["--hosts", "no/such/file"], "no such file"), (["--jsn"], "did you mean '--json'")]:
        ended = subprocess.run([lockstep, "doctor", *flags], capture_output=True, text=True, timeout=HANG_SECONDS)
        assert ended.returncode == 2 and said in ended.stderr and not ended.stdout, (flags, ended)


def a_hiding_variable_is_named(lockstep):
    if reason := mounts.why_not():
        skip("mounts", reason)
    if not Path("/sys/bus/pci/devices").exists():
        skip("PCI bus", "/sys/bus/pci/devices does not exist")
    with_gpus = lambda command: mounts.among_own_mounts(THIRTY_TWO_GPUS, command)  # noqa: E731
    answer = ask(lockstep, around=with_gpus, CUDA_VISIBLE_DEVICES="0")
    assert answer.facts["devices"]["cuda"]["plugged_in"] == 32, answer.facts
    answer.expect("devices.hidden", "advice", "CUDA_VISIBLE_DEVICES=0", "32 are plugged in", "1 is seen", "unset CUDA_VISIBLE_DEVICES")
    if answer.facts["devices"]["cuda"]["seen"] == 0:
        answer.expect("devices.libtorch_without_cuda", "problem", "USE_CUDA=OFF", answer.facts["versions"]["libtorch"], "install")
    assert "devices.hidden" not in ask(lockstep, around=with_gpus).ids()


def a_limit_of_one_core_says_how_many_workers_to_use(lockstep):
    if reason := cgroup.why_not():
        skip("control groups", reason)
    if len(os.sched_getaffinity(0)) < 2:
        skip("second core to be kept from", "this machine has one")
    with cgroup.CoreLimit(1) as limit:
        answer = ask(lockstep, around=limit.inside)
        answer.expect("processors.quota", "advice", "the time of 1 of", str(limit.group), "--workers 1")
        assert answer.facts["processors"]["usable"]["workers"] == 1, answer.facts
    assert "processors.quota" not in ask(lockstep).ids()


def a_small_affinity_mask_says_how_many_workers_to_use(lockstep):
    processors = os.sched_getaffinity(0)
    if len(processors) < 2:
        skip("second core to be kept from", "this machine has one")
    answer = ask(lockstep, around=lambda command: ["taskset", "-c", str(min(processors)), *command])
    answer.expect("processors.affinity", "advice", "may run on 1 of", "--workers 1")


def a_full_dev_shm_is_a_problem(lockstep):
    if reason := mounts.why_not():
        skip("mounts", reason)
    fill = "mount -t tmpfs -o size=1m tmpfs /dev/shm; head -c 1M /dev/zero > /dev/shm/left-behind"
    answer = ask(lockstep, around=lambda command: mounts.among_own_mounts(fill, command))
    answer.expect("memory.shm", "problem", "0 B free of 1.0 MiB", "all-reduce", "ls -l /dev/shm")


def too_few_addresses_are_a_problem(lockstep):
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    limit = f"ulimit -v {memory // 1024}; exec \"$@\""
    answer = ask(lockstep, around=lambda command: ["sh", "-c", limit, "sh", *command])
    answer.expect("memory.address_space", "problem", "ulimit -v is", "ulimit -v unlimited")


def a_reference_blas_is_a_problem(lockstep):
    folder = Path(f"/usr/lib/{platform.machine()}-linux-gnu/blas")
    if not (folder / "libblas.so.3").exists():
        skip("reference BLAS", "libblas3 is not installed")
    answer = ask(lockstep, LD_LIBRARY_PATH=str(folder))
    answer.expect("blas.reference", "problem", str(folder), "apt-get install libopenblas0-openmp")
    assert "blas.reference" not in ask(lockstep).ids()


def openblas_computes_with_the_instructions_of_our_kernels(lockstep):
    assert ask(lockstep, LOCKSTEP_INSTRUCTIONS="avx2").facts["blas"]["core"] == "Haswell"
    answer = ask(lockstep, OPENBLAS_CORETYPE="Nehalem")
    assert answer.facts["blas"]["core"] == "Nehalem", answer.facts
    answer.expect("blas.core", "advice", "computes as for Nehalem")
    assert "blas.core" not in ask(lockstep).ids()


def an_mpi_that_cannot_be_loaded_is_named(lockstep):
    with tempfile.TemporaryDirectory() as folder:
        for name in ("libmpi.so.40", "libmpi.so.12", "libmpich.so.12"):
            Path(folder, name).touch()
        answer = ask(lockstep, LD_LIBRARY_PATH=folder)
    if answer.facts["versions"]["mpi"] == "none":
        skip("MPI", "this build has none")
    answer.expect("versions.mpi", "advice", "liblockstep_mpi", "--transport hybrid")


def odd_numbers_of_threads_are_named(lockstep):
    answer = ask(lockstep, OMP_NUM_THREADS="many")
    answer.expect("blas.thread_variable", "advice", "OMP_NUM_THREADS='many'", "unset OMP_NUM_THREADS")


def wrong_ranks_are_problems(lockstep):
    def expect(name, *parts, **variables):
        ask(lockstep, **variables).expect(name, "problem", *parts)

    expect("ranks.environment", "RANK='5'", "from 0 to 3", RANK="5", WORLD_SIZE="4")
    expect("ranks.environment", "RANK is set and WORLD_SIZE is not", RANK="5")
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"}
    expect("ranks.world_size", "WORLD_SIZE=8", "SLURM_NTASKS=4", RANK="0", WORLD_SIZE="8", **slurm)
    mpi = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
    expect("ranks.world_size", "WORLD_SIZE=8", "OMPI_COMM_WORLD_SIZE=2", RANK="0", WORLD_SIZE="8", **mpi)
    expect("ranks.master", "nowhere.invalid", "MASTER_ADDR", RANK="1", WORLD_SIZE="2", MASTER_ADDR="nowhere.invalid")
    answer = ask(lockstep, **slurm, MASTER_ADDR="127.0.0.1")
    assert answer.facts["ranks"]["launcher"] == "Slurm" and answer.facts["ranks"]["rank"]["world_size"] == 4, answer.facts


def a_master_port_in_use_is_a_problem(lockstep):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        worker = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        ask(lockstep, RANK="0", **worker).expect("network.master_port", "problem", f"127.0.0.1:{port}", "in use")
        assert "network.master_port" not in ask(lockstep, RANK="1", **worker).ids(), "only rank 0 listens there"


def an_unreachable_host_is_named(lockstep):
    if reason := ssh_server.why_not():
        skip("ssh", reason)
    port = ssh_server.free_port()
    ssh = f"ssh -F /dev/null -p {port}"
    answer = ask(lockstep, "--hosts", "127.0.0.1", "--timeout", "2", "--ssh", ssh)
    answer.expect("hosts.unreachable", "problem", f"127.0.0.1 (127.0.0.1 port {port})", "Connection refused", f"{ssh} 127.0.0.1 true")
    if reason := hosts.why_not():
        skip("hosts", reason)
    with hosts.Hosts(1) as bed:
        around = lambda command: ["ip", "netns", "exec", bed.name(0), *command]  # noqa: E731
        nobody = bed.address(50)
        answer = ask(lockstep, "--hosts", nobody, "--timeout", "1", around=around)
        answer.expect("hosts.unreachable", "problem", f"{nobody} ({nobody} port 22)", "did not answer within 1 s")
        assert answer.facts["hosts"][nobody]["round_trip_seconds"] is None, answer.facts


def hosts_that_can_be_used_are_timed(lockstep):
    if reason := ssh_server.why_not():
        skip("ssh", reason)
    with ssh_server.SshServer() as server, tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "hosts")
        file.write_text("127.0.0.1 slots=2  # the first\n127.0.0.2\n")
        answer = ask(lockstep, "--hosts", str(file), "--timeout", "30", "--ssh", server.command())
        assert list(answer.facts["hosts"]) == ["127.0.0.1", "127.0.0.2"], answer.facts
        for host in answer.facts["hosts"].values():
            assert host["start_seconds"] > 0 and host["round_trip_seconds"] > 0 and not host["failure"], host
        answer = ask(lockstep, "--hosts", "127.0.0.3", "--timeout", "30", "--ssh", server.command(),
                     "--remote-lockstep", "/nowhere/lockstep")
        answer.expect("hosts.unreachable", "problem", "/nowhere/lockstep cannot be started there", "--remote-lockstep")


def without_the_library_all_else_is_reported(lockstep):
    with tempfile.TemporaryDirectory() as folder:
        for file in [Path(lockstep), *Path(lockstep).parent.glob("liblockstep_core.so*")]:
            shutil.copy2(file, folder, follow_symlinks=False)
        answer = ask(Path(folder, Path(lockstep).name), LD_LIBRARY_PATH=folder)
        answer.expect("versions.library", "problem", "liblockstep.so", folder, "install Lockstep again")
        assert answer.facts["processors"]["cores"]["cores"] >= 1 and answer.facts["network"]["ipv4"]["works"], answer.facts


def the_self_test_trains_to_equal_models(lockstep):
    """Also as a worker of somebody else's job."""
    for device, variables in (("cpu", {}), ("virtual", {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"})):
        facts = ask(lockstep, "--self-test", "--device", device, **variables).facts["self-test"]
        one, two = facts["1_worker"], facts["2_workers"]
        assert facts["models"] == "equal" and one["model_sha256"] == two["model_sha256"] != "", facts
        assert one["samples_per_second"] > 0 and two["samples_per_second"] > 0, facts


if __name__ == "__main__":
    run_named(
        every_area_has_facts,
        wrong_flags_are_refused,
        a_hiding_variable_is_named,
        a_limit_of_one_core_says_how_many_workers_to_use,
        a_small_affinity_mask_says_how_many_workers_to_use,
        a_full_dev_shm_is_a_problem,
        too_few_addresses_are_a_problem,
        a_reference_blas_is_a_problem,
        openblas_computes_with_the_instructions_of_our_kernels,
        an_mpi_that_cannot_be_loaded_is_named,
        odd_numbers_of_threads_are_named,
        wrong_ranks_are_problems,
        a_master_port_in_use_is_a_problem,
        an_unreachable_host_is_named,
        hosts_that_can_be_used_are_timed,
        without_the_library_all_else_is_reported,
        the_self_test_trains_to_equal_models,
    )
