"""A real sshd of the test's own, on this machine's loopback addresses, which are its hosts.

    with SshServer() as server:
        subprocess.run([*server.command, "127.0.0.2", "true"])

Keys, configuration and logs are in a folder of its own, which is removed at the end, whatever happens.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SSHD = "/usr/sbin/sshd"


def why_not():
    """Why this machine cannot have an sshd; nothing where it can."""
    if not Path(SSHD).exists() or shutil.which("ssh") is None:
        return "openssh-server is not installed"
    return None


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class SshServer:
    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        self.made = tempfile.TemporaryDirectory()
        self.folder = Path(self.made.name)
        self.port = free_port()
        for name in ("host_key", "key", "other_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        (self.folder / "config").write_text(
            f"""Port {self.port}
                ListenAddress 127.0.0.1
                ListenAddress 127.0.0.2
                ListenAddress 127.0.0.3
                HostKey {self.folder}/host_key
                AuthorizedKeysFile {self.folder}/key.pub
                PidFile {self.folder}/pid
                StrictModes no
                UsePAM no
                PasswordAuthentication no
                KbdInteractiveAuthentication no
                PermitRootLogin prohibit-password
                """
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # where sshd confines its unprivileged part
        try:
            self.server = subprocess.Popen([SSHD, "-D", "-f", self.folder / "config", "-E", self.folder / "log"],
                                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait(self):
        deadline = time.monotonic() + 20
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert self.server.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < deadline, "sshd does not listen"
                time.sleep(0.02)

    def __exit__(self, *_):
        self.server.kill()
        self.server.wait()
        self.made.cleanup()

    def command(self, key="key", port=None):
        """The command that reaches the server with a key that it knows, or another one."""
        options = ["-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        options += ["-o", "IdentitiesOnly=yes", "-i", str(self.folder / key), "-p", str(port or self.port)]
        return " ".join(["ssh", *options])
