"""`snapline ui`: the page of a job."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser
from contextlib import suppress
from importlib.util import find_spec
from threading import Event

from snapline.cli.job_lookup import NoAddressError, add_access, find_job, is_path
from snapline.cli.storage_access import s3_options, whole_path
from snapline.cli.terminal_output import print_json, say, warn
from snapline.cli.usage import Commands, UnreachableError, UsageError, add_command, add_json
from snapline.config import Monitoring

_DESCRIPTION = """\
Show the page of a running job, or of what a storage path tells about jobs that are not running.

For a running job it prints the address of the page, which the job's driver serves, and opens it in a browser if there
is one. For a storage path with no job running, this command serves the page itself until Ctrl-C: all that is stored
about past checkpoints, failures and settings."""


def add_ui(commands: Commands) -> None:
    parser = add_command(
        commands,
        "ui",
        _ui,
        help="show the page of a job, running or not",
        description=_DESCRIPTION,
        examples=(
            "snapline ui clicks",
            "snapline ui /data/checkpoints/clicks",
            "snapline ui s3://bucket/checkpoints --port 8080 --no-browser",
        ),
    )
    parser.add_argument(
        "job",
        metavar="PATH_OR_JOB",
        help="a storage path; or name, id or URL of a running job of yours on this machine",
    )
    parser.add_argument(
        "--port", metavar="PORT", help="where to serve stored history (default: the first free of 4300-4399)"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    add_json(parser, "print the address as a JSON document")
    add_access(parser)


def _ui(options: argparse.Namespace) -> int:
    try:
        job = find_job(options)
    except UnreachableError as error:
        if not is_path(options.job) or options.job.startswith(("http://", "https://")):
            raise
        if not isinstance(error, NoAddressError):
            warn(str(error))
        return serve_stored(options.job, options)
    address = job.address
    url = str(job.row.get("url") or (address.url if address is not None else job.client.base))
    token_file = None if address is None else address.token_file
    if options.json:
        print_json({"job_id": job.job_id, "url": url, "token_file": token_file, "is_live": True})
        return 0
    say(url)
    if token_file is not None:
        sys.stderr.write(f"the page asks for a token; it is in {token_file}\n")
    open_browser(url, options)
    return 0


def open_browser(url: str, options: argparse.Namespace) -> None:
    """Open the page, where there is somebody to see it."""
    has_screen = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if not options.no_browser and not options.json and sys.stdout.isatty() and has_screen:
        webbrowser.open(url)


def serve_stored(path: str, options: argparse.Namespace) -> int:
    """Serve the page for what is stored at a path, until Ctrl-C."""
    monitoring = Monitoring(read_only=True) if options.port is None else Monitoring(read_only=True, port=options.port)
    if missing := [package for package in ("starlette", "uvicorn", "prometheus_client") if find_spec(package) is None]:
        raise UsageError(f"the page needs {' and '.join(missing)}: pip install 'snapline[web]'")
    # Imported here because other commands need none of it.
    from snapline.runtime.master import stored_job

    served = stored_job.serve_stored(whole_path(path), monitoring, s3_options(options.s3))
    urls = [place.url for place in served if place.url]
    if not urls:
        raise UnreachableError(f"the page cannot be served at port {monitoring.port}: see above")
    if options.json:
        print_json({"urls": urls, "is_live": False})
    else:
        for url in urls:
            say(url)
        sys.stderr.write("serving what is stored, until Ctrl-C\n")
    sys.stdout.flush()
    open_browser(urls[0], options)
    with suppress(KeyboardInterrupt):
        Event().wait()
    return 0
