#!/usr/bin/python3 -B
"""All-reduce between hosts with a slow network, against Open MPI's and against what the link can carry.

    scripts/build release -DLOCKSTEP_PEERS=ON -- lockstep_cli peers
    bench/vs_peers_on_hosts.py --hosts 2 --workers 1
    bench/vs_peers_on_hosts.py --hosts 2 --workers 2 --transport hybrid

Hosts are network namespaces of this machine, joined by a bridge and shaped to --rate in both directions
(tests/beds/hosts.py; needs root). Lockstep and Open MPI take turns; the median of rounds counts. Both add floats in
place and check a sum.

In an all-reduce of so many bytes on H hosts, some host sends and receives at least 2 (H-1)/H times as many. The time
that this takes, divided by the time that was measured, is printed as a share of the link: of its nominal rate, and of
what plain TCP streams reach that send in both directions between two of the hosts.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/beds")]
from hosts import Hosts, why_not  # noqa: E402
from vs_peers import format_bytes, parse_bytes  # noqa: E402

RATES = {"mbit": 1e6 / 8, "gbit": 1e9 / 8}
# How Open MPI maps ranks to hosts.
OPENMPI_MAPPINGS = ["node", "slot"]
SECONDS = 2  # for which plain streams send
STREAM = """
import socket, sys, threading, time
address, role, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
if role == "listens":
    connection = socket.create_server((address, 29600)).accept()[0]
else:
    for attempt in range(100):
        try:
            connection = socket.create_connection((address, 29600))
            break
        except OSError:
            time.sleep(0.05)
def send():
    until, data = time.time() + seconds, bytes(1 << 18)
    while time.time() < until:
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
sender = threading.Thread(target=send)
sender.start()
into, received, began = bytearray(1 << 18), 0, None
while count := connection.recv_into(into):
    began = began or time.time()
    received += count
sender.join()
print(received / (time.time() - began))
"""


def bytes_per_second(rate):
    number, unit = re.fullmatch(r"(\d+)(mbit|gbit)", rate).groups()
    return int(number) * RATES[unit]


def plain_stream(hosts):
    """What a TCP stream carries each way while another one does the same the other way, in bytes per second."""
    ends = [
        hosts.start(host, [sys.executable, "-c", STREAM, hosts.address(0), role, str(SECONDS)], stdout=subprocess.PIPE)
        for host, role in enumerate(["listens", "connects"])
    ]
    return min(float(end.communicate(timeout=60)[0]) for end in ends)


def lockstep(options, hosts, size):
    command = [str(options.build / "lockstep"), "bench", "all_reduce", "--transport", options.transport, "--json"]
    command += ["-b", str(size), "-e", str(size), "--check", "--batches", str(options.batches)]
    return only(hosts.run_all(command, per_host=options.workers))


def openmpi(options, hosts, size):
    return min(openmpi_mapped(options, hosts, size, mapping) for mapping in OPENMPI_MAPPINGS)


def openmpi_mapped(options, hosts, size, mapping):
    """mpirun runs on the first host, and starts its daemons on the others as it would over ssh."""
    with tempfile.TemporaryDirectory() as folder:
        enter = Path(folder, "enter")
        enter.write_text("#!/bin/sh\nhost=$1; shift\n"
                         f"exec nsenter --net=/run/netns/{hosts.tag}h${{host#host}} unshare --uts "
                         "sh -c \"hostname $host; $*\"\n")
        enter.chmod(0o755)
        hostfile = Path(folder, "hosts")
        hostfile.write_text("".join(f"host{host} slots={options.workers}\n" for host in range(options.hosts)))
        known = Path(folder, "names")
        addresses = [f"{hosts.address(host)} host{host}\n" for host in range(options.hosts)]
        known.write_text("127.0.0.1 localhost\n" + "".join(addresses))
        command = ["mpirun.openmpi", "--allow-run-as-root", "--hostfile", str(hostfile), "--map-by", mapping]
        command += ["-np", str(options.hosts * options.workers)]
        for key, value in {
            "plm": "rsh", "plm_rsh_agent": str(enter), "pml": "ob1", "btl": "tcp,self,vader",
            "btl_tcp_if_include": "eth0", "oob_tcp_if_include": "eth0", "mpi_yield_when_idle": "1",
        }.items():
            command += ["--mca", key, value]
        command += [str(options.build / "openmpi_all_reduce"), "--bytes", str(size), "--rounds", str(options.batches)]
        inside = f"mount --bind {known} /etc/hosts; hostname host0; exec \"$@\""
        started = subprocess.run(
            ["nsenter", f"--net=/run/netns/{hosts.name(0)}", "unshare", "--uts", "--mount", "sh", "-ec", inside, "sh",
             *command],
            capture_output=True, text=True, timeout=300)
        if started.returncode != 0:
            sys.exit(f"vs_peers_on_hosts: mpirun failed ({started.returncode}):\n{started.stderr}")
        return only(started.stdout)


def only(output):
    found, = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if found["wrong"] not in (0, None):
        sys.exit(f"vs_peers_on_hosts: wrong sums: {found}")
    return found["time_us"] / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1, help="on each host")
    parser.add_argument("--transport", default="tcp", help="of lockstep")
    parser.add_argument("--bytes", default="16M", help="sizes, such as 1M,16M")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=3, help="timed batches in a round")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--json", action="store_true", help="print an object for each size")
    options = parser.parse_args()
    reason = why_not()
    if reason:
        sys.exit(f"vs_peers_on_hosts: no hosts here: {reason}")
    with Hosts(options.hosts, options.rate) as hosts:
        for size in map(parse_bytes, options.bytes.split(",")):
            rounds = []
            for i in range(options.rounds):
                rounds.append({"lockstep": lockstep(options, hosts, size), "openmpi": openmpi(options, hosts, size),
                               "stream": plain_stream(hosts)})
                print(f"round {i + 1} of {options.rounds}: {rounds[-1]}", file=sys.stderr)
            report(options, size, rounds)


def report(options, size, rounds):
    median = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    carried = 2 * (options.hosts - 1) / options.hosts * size
    result = {
        "hosts": options.hosts, "workers_per_host": options.workers, "bytes": size, "rate": options.rate,
        "lockstep_ms": median["lockstep"] * 1e3, "openmpi_ms": median["openmpi"] * 1e3,
        "of_openmpi": statistics.median(each["openmpi"] / each["lockstep"] for each in rounds),
        "of_link": carried / median["lockstep"] / bytes_per_second(options.rate),
        "of_streams": carried / median["lockstep"] / median["stream"],
        "stream_mbit": median["stream"] * 8 / 1e6,
    }
    if options.json:
        return print(json.dumps(result), flush=True)
    print(f"{format_bytes(size)}, {options.hosts} hosts with {options.workers} workers each, {options.rate}: "
          f"lockstep over {options.transport} {result['lockstep_ms']:.2f} ms, Open MPI {result['openmpi_ms']:.2f} ms: "
          f"{result['of_openmpi']:.2f} times as fast; {100 * result['of_link']:.1f} % of the link, "
          f"{100 * result['of_streams']:.1f} % of plain streams ({result['stream_mbit']:.0f} Mbit/s)", flush=True)


if __name__ == "__main__":
    main()
