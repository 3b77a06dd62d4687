"""`strata verify` where no temporary file can be opened; prints how it ended, for each error."""

from __future__ import annotations

import errno
import json
import sys
import warnings
from pathlib import Path

from tests.faults.children import Ended, in_child, use
from tests.faults.commands import run_strata
from tests.faults.library import FOR_EVER, Action, Control, Fault, Kind
from tests.faults.places import Place, empty_home, undisturbed, write_segments
from tests.faults.scenarios import LOAD, PUBLISH, VERIFY

ERRORS = (errno.EACCES, errno.EMFILE, errno.ENOSPC, errno.EROFS)
_SETTINGS = {"STRATA_LAKE": "0"}
_OPENING = 1 << Kind.OPEN | 1 << Kind.CREATE


def _verified(place: Place, control: Control, error: int) -> Ended:
    def work() -> int:
        use(place.environment(_SETTINGS))
        control.arm()
        return run_strata([*VERIFY])

    scratch = place.warehouse / "scratch"
    control.set(Fault(_OPENING, Action.FAIL, error, 1, FOR_EVER), scratch)
    return in_child(work, place.notes)


def main() -> None:
    """The argument is a folder for what is tried."""
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    folder = Path(sys.argv[1])
    place, control = Place(folder / "home", folder / "notes"), Control()
    empty_home(place)
    write_segments(place.home / "source", [0])
    undisturbed(place, _SETTINGS, LOAD, PUBLISH)
    endings = []
    for error in ERRORS:
        ended = _verified(place, control, error)
        endings.append((errno.errorcode[error], ended.code, ended.err))
    print(json.dumps(endings))


if __name__ == "__main__":
    main()
