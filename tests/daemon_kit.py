"""Dagster's daemon and its code server, started as the units of systemd say, without systemd."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import split

ROOT = Path(__file__).resolve().parents[1]
_SECONDS = 60.0


@contextmanager
def daemon(
    folder: Path, environment: Mapping[str, str], log: Path
) -> Iterator[tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]]:
    """The code server and the daemon, which both write to `log`; their socket lies in `folder`.

    They are stopped at the end, the daemon first. Fails where one does not end well.
    """
    socket = folder / "code.sock"
    with log.open("ab") as out:

        def started(unit: str) -> subprocess.Popen[bytes]:
            text = (ROOT / "dagster_home" / "systemd" / f"{unit}.service").read_text()
            (command,) = re.findall(r"^ExecStart=(.+)$", text.replace("\\\n", ""), re.M)
            program, *arguments = split(command.replace("/run/strata/code.sock", str(socket)))
            path = Path(sys.executable).with_name(Path(program).name)
            return subprocess.Popen(
                [path, *arguments], cwd=ROOT, env=environment, stdout=out, stderr=out
            )

        processes = []
        try:
            processes.append(server := started("strata-code"))
            deadline = time.monotonic() + _SECONDS
            while not socket.is_socket():
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            processes.append(work := started("strata-daemon"))
            yield server, work
        finally:
            for process in reversed(processes):
                process.send_signal(signal.SIGTERM)
                assert process.wait(_SECONDS) == 0
