"""The last complete and the last quick check on this machine. Nothing here knows Dagster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from pipelines.site.site import Site
from transforms.verifying.verification import COMPLETE, QUICK, EndedCheck, ended_checks


def check_record(site: Site) -> tuple[Path, str]:
    """Return this machine's record of checks, and the places that they are about."""
    # Another release may write other documents.
    about = f"{site.warehouse.describe()} {site.store.describe()} {version('strata')}"
    return site.warehouse.cache / "sound.json", about


def last_checks(site: Site) -> Mapping[str, EndedCheck]:
    """Return the last check of each kind, the newest last."""
    return ended_checks(*check_record(site))


def check_problems(site: Site) -> Iterator[str]:
    """Yield sentences about findings that may still be there, and about a check that is due."""
    checks, days = last_checks(site), site.settings.verify_days
    complete = checks.get(COMPLETE)
    counting = [complete] if complete else []
    counting += [checks[kind] for kind in [*checks][-1:] if kind == QUICK]
    if worst := max((check.findings for check in counting), default=0):
        yield f"the last strata verify had {worst:,} findings: run strata verify, which names them"
    since = datetime.now(UTC) - timedelta(days=days)
    if days and (complete is None or datetime.fromisoformat(complete.at) < since):
        yield f"no complete strata verify ended here in {days:g} days (STRATA_VERIFY_DAYS)"
