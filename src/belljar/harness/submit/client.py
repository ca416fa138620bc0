"""Submit work to the judge, from inside a work sandbox: `belljar-submit`, also known as `sforge-submit`.

This one file is put into sandboxes, and nothing beside it. It needs nothing but Python 3.8 and its standard library,
and neither curl nor jq; so it imports nothing of Belljar's, and newer syntax is avoided.
"""

from __future__ import annotations

import base64
import fnmatch
import http.client
import json
import os
import secrets
import shlex
import stat
import sys
import tarfile
import tempfile
import time
import urllib.parse
import urllib.request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

_USAGE = """Usage: {name} [OPTION]

Submit your work to the judge, wait for the result, and print it.

  -d, --details    print every check of the result, with its message
  -l, --list       list your submissions so far; submit nothing
  --result ID      print the result of a submission, such as agent-1; submit nothing
  -h, --help       print this help

The exit code is 0 if the submission was graded, whatever its score is, and not 0 if it was not.
"""
_STATE = "/tmp/sforge_state.json"  # noqa: S108 - where SForge's own tool has it
_CHUNK = 1 << 16
_CONNECT_TIMEOUT = 30
_ANSWER_TIMEOUT = 900
_WAIT_SECONDS = 2 * 60 * 60
_FIRST_INTERVAL = 0.2
_LONGEST_INTERVAL = 5.0
_LOST_SECONDS = 120
_MAX_ANSWER = 64 << 20
_RULE = "=" * 40


class SubmitError(Exception):
    """Something that ends the program with a message."""


def main(arguments: list[str]) -> int:
    """Do what the command line says, and return the exit code."""
    name = os.path.basename(arguments[0])  # noqa: PTH119 - pathlib takes time to load
    try:
        return _run(name, arguments[1:])
    except SubmitError as error:
        sys.stderr.write("%s: %s\n" % (name, _printable(str(error))))  # noqa: UP031
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return 130


def _run(name: str, arguments: list[str]) -> int:
    details, listing, wanted = False, False, ""
    rest = list(arguments)
    while rest:
        option = rest.pop(0)
        if option in ("-h", "--help"):
            _print(_USAGE.format(name=name).rstrip())
            return 0
        if option in ("-d", "--details"):
            details = True
        elif option in ("-l", "--list"):
            listing = True
        elif option == "--result" and rest:
            wanted = rest.pop(0)
        elif option.startswith("--result=") and len(option) > len("--result="):
            wanted = option.partition("=")[2]
        else:
            missing = "needs the name of a submission" if option == "--result" else "is not known"
            sys.stderr.write(f"{name}: {_printable(option)} {missing}; {name} --help lists the options\n")
            return 2
    judge = _Judge(_setting("JUDGE_URL"), _setting("TOKEN"))
    if listing:
        _print_history(judge.get("history"))
        return 0
    if not wanted:
        wanted = _submit(judge)
    return _print_result(_wait(judge, wanted, name), wanted, name, details)


def _submit(judge: _Judge) -> str:
    """Submit the work, and return the name of the submission."""
    directory = os.environ.get("BELLJAR_PATCH_DIR") or os.environ.get("SFORGE_PATCH_DIR") or "."
    try:
        os.chdir(directory)
    except OSError as error:
        raise SubmitError(f"{directory} cannot be entered ({error.strerror}); set BELLJAR_PATCH_DIR") from None
    with tempfile.TemporaryFile() as file:
        count = _pack(file)
        size = file.tell()
        _print(f"Submitting {count} files ({size} bytes)")
        answer = judge.submit(file, size)
    submission = answer.get("submission_id")
    if not isinstance(submission, str) or not submission:
        raise SubmitError("the judge accepted the submission and gave it no name; this is a bug of the judge")
    left = answer.get("remaining_submissions")
    remaining = f"  (remaining submissions: {left})" if left is not None else ""
    _print(f"Round: {submission}{remaining}")
    sys.stdout.flush()
    return submission


def _pack(file: BinaryIO) -> int:
    """Write the archive, and return how many files are in it."""
    given = os.environ.get("BELLJAR_SUBMIT_PATHS") or os.environ.get("SFORGE_SUBMIT_PATHS") or "."
    paths = [os.path.normpath(path) for path in given.split()]
    existing = [path for path in paths if os.path.lexists(path)]
    if not existing:
        raise SubmitError(f"there is nothing to submit: none of {given} exists in {os.getcwd()}")  # noqa: PTH109
    exclude = _excluded()
    count = 0
    try:
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6, format=tarfile.GNU_FORMAT) as archive:
            waiting = sorted(existing, reverse=True)
            while waiting:
                path = waiting.pop()
                if path != "." and _is_excluded(path, exclude):
                    continue
                mode = os.lstat(path).st_mode
                if stat.S_ISDIR(mode):
                    inside = sorted(os.listdir(path), reverse=True)  # noqa: PTH208
                    waiting += [os.path.normpath(os.path.join(path, each)) for each in inside]  # noqa: PTH118
                elif not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
                    continue  # sockets and pipes are nothing that could be submitted
                archive.inodes.clear()  # type: ignore[attr-defined]  # a file twice is two files, not a link
                archive.add(path, recursive=False, filter=_anonymous)
                count += not stat.S_ISDIR(mode)
    except OSError as error:
        what = error.filename or "a file"
        why = error.strerror or "it changed while it was read"
        raise SubmitError(f"{what} cannot be put into the archive ({why}); repair that, and submit again") from None
    return count


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = int(info.mtime)
    return info


def _excluded() -> list[str]:
    """Return the patterns of tar's --exclude flags."""
    flags = os.environ.get("BELLJAR_SUBMIT_EXCLUDE_FLAGS") or os.environ.get("SFORGE_SUBMIT_EXCLUDE_FLAGS") or ""
    try:
        words = shlex.split(flags)
    except ValueError:
        words = flags.split()
    patterns = [word[len("--exclude=") :] for word in words if word.startswith("--exclude=")]
    patterns += [after for word, after in zip(words, words[1:]) if word == "--exclude"]  # noqa: B905, RUF007
    return [".git", *(pattern.rstrip("/") for pattern in patterns)]


def _is_excluded(path: str, patterns: list[str]) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


class _Judge:
    """The judge, over HTTP."""

    def __init__(self, url: str, token: str) -> None:
        self._url = urllib.parse.urlsplit(url)
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise SubmitError(f"BELLJAR_JUDGE_URL is no http URL: {url}")
        self._base = self._url.path.rstrip("/") + "/api/v1/"
        self._headers = {"Authorization": "Bearer " + token, "Accept": "application/json"}

    def get(self, path: str) -> dict[str, Any]:
        connection, prefix, headers = self._connect()
        try:
            connection.request("GET", prefix + self._base + path, headers=headers)
            return self._answer(connection)
        except (OSError, http.client.HTTPException) as error:
            raise _NotReachedError(self._unreachable(error)) from None
        finally:
            connection.close()

    def submit(self, file: BinaryIO, size: int) -> dict[str, Any]:
        boundary = secrets.token_hex(16)
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="archive"; filename="submission.tar.gz"\r\n'
            "Content-Type: application/gzip\r\n\r\n"
        ).encode()
        tail = f"\r\n--{boundary}--\r\n".encode()
        connection, prefix, headers = self._connect()
        headers["Content-Type"] = "multipart/form-data; boundary=" + boundary
        headers["Content-Length"] = str(len(head) + size + len(tail))
        try:
            connection.putrequest("POST", prefix + self._base + "submit", skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            try:
                connection.endheaders()
                connection.send(head)
                file.seek(0)
                for data in iter(lambda: file.read(_CHUNK), b""):
                    connection.send(data)
                connection.send(tail)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the judge may have answered before it has read everything
            return self._answer(connection)
        except (OSError, http.client.HTTPException) as error:
            raise _NotReachedError(self._unreachable(error)) from None
        finally:
            connection.close()

    def _connect(self) -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
        """Return a connection, what comes before every path, and the headers: a proxy needs the whole URL."""
        host, port = self._url.hostname or "", self._url.port
        proxy = urllib.request.getproxies().get(self._url.scheme)
        is_tls, headers, prefix = self._url.scheme == "https", dict(self._headers), ""
        make = http.client.HTTPSConnection if is_tls else http.client.HTTPConnection
        if proxy is None or urllib.request.proxy_bypass(host):
            connection = make(host, port, timeout=_CONNECT_TIMEOUT)
        else:
            through = urllib.parse.urlsplit(proxy if "://" in proxy else "http://" + proxy)
            connection = make(through.hostname or "", through.port, timeout=_CONNECT_TIMEOUT)
            credentials = {}
            if through.username is not None:
                text = urllib.parse.unquote(through.username) + ":" + urllib.parse.unquote(through.password or "")
                credentials["Proxy-Authorization"] = "Basic " + base64.b64encode(text.encode()).decode()
            if is_tls:
                connection.set_tunnel(host, port or 443, headers=credentials)
            else:
                prefix = "http://" + self._url.netloc.rpartition("@")[2]
                headers.update(credentials)
        try:
            connection.connect()
        except OSError as error:
            raise _NotReachedError(self._unreachable(error)) from None
        connection.sock.settimeout(_ANSWER_TIMEOUT)
        return connection, prefix, headers

    def _answer(self, connection: http.client.HTTPConnection) -> dict[str, Any]:
        response = connection.getresponse()
        content = response.read(_MAX_ANSWER)
        try:
            data = json.loads(content.decode())
        except (ValueError, RecursionError):
            data = None
        if response.status == 200 and isinstance(data, dict):
            return data
        detail = data.get("detail") if isinstance(data, dict) else None
        if detail is None:
            if response.status >= 500:
                raise _NotReachedError(f"the judge cannot be reached: what is before it answers {response.status}")
            raise SubmitError(f"{self._url.netloc} answers {response.status}, and not as a judge does")
        raise _refusal(response.status, str(detail), response.getheader("Retry-After"))

    def _unreachable(self, error: Exception) -> str:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return f"the judge at {self._url.netloc} cannot be reached ({why}); wait a moment and try again"


class _NotReachedError(SubmitError):
    """The judge did not answer. It may do so later."""


def _refusal(status: int, detail: str, retry_after: str | None) -> SubmitError:
    if status == 429 and ("budget" in detail or "exhausted" in detail):
        return SubmitError("SUBMISSION LIMIT REACHED: " + detail)
    if status == 429:
        seconds = f" ({retry_after} s left)" if retry_after and " s " not in detail else ""
        return SubmitError("COOLDOWN: " + detail + seconds)
    if status == 401:
        return SubmitError(f"the judge does not accept the token ({detail}); do not change BELLJAR_TOKEN")
    return SubmitError(f"the judge refuses: {detail}")


def _wait(judge: _Judge, submission: str, name: str) -> dict[str, Any]:
    """Return the result of a submission once it is done."""
    started = heard = time.monotonic()
    interval = _FIRST_INTERVAL
    while True:
        now = time.monotonic()
        try:
            found = judge.get("result/" + urllib.parse.quote(submission, safe=""))
            heard = now
            if found.get("status") in ("completed", "error"):
                return found
        except _NotReachedError as error:
            if now - heard > _LOST_SECONDS:
                raise SubmitError(f"{error}; `{name} --result {submission}` prints the result later") from None
        if now - started > _WAIT_SECONDS:
            raise SubmitError(f"there is no result yet; `{name} --result {submission}` prints it later")
        time.sleep(interval)
        interval = min(interval * 1.5, _LONGEST_INTERVAL)


def _print_result(found: dict[str, Any], submission: str, name: str, details: bool) -> int:  # noqa: FBT001
    report = found.get("report")
    if found.get("status") != "completed" or not isinstance(report, dict):
        why = found.get("error") or "the judge has no report of it"
        raise SubmitError(f"{submission} was not graded: {why}")
    _remember(submission, report)
    _print("", _RULE, f"  {submission} Results", _RULE)
    if report.get("valid") is False:
        _print("  Valid:       no")
    if report.get("score") is not None:
        _print(f"  Score:       {report['score']}")
    if report.get("total_tests"):
        _print(f"  Pass rate:   {_percent(report.get('pass_rate'))}")
        _print(f"  Passed:      {report.get('passed')}/{report['total_tests']}")
    if report.get("summary"):
        _print("", "  Summary:", *("    " + line for line in str(report["summary"]).splitlines()))
    if report.get("metrics"):
        _print("", "  Metrics:", *(f"    {key}: {value}" for key, value in report["metrics"].items()))
    left_out = report.get("left_out") or []
    if left_out:
        _print("", f"  Not submitted ({len(left_out)}):", *("    - " + str(each) for each in left_out[:5]))
        if len(left_out) > 5:
            _print(f"    ... and {len(left_out) - 5} more")
    _print("")
    _print_checks(report, submission, name, details)
    _print(_RULE)
    return 0


def _print_checks(report: dict[str, Any], submission: str, name: str, details: bool) -> None:  # noqa: FBT001
    checks = report.get("details") or []
    if details:
        _print("  Details:")
        for check in checks:
            message = f": {check['message']}" if check.get("message") else ""
            _print(f"    [{check.get('status')}] {check.get('name')}{message}")
    elif report.get("total_tests") and report.get("passed") == report.get("total_tests"):
        _print("  All tests passed!")
    elif report.get("total_tests"):
        failed = report["total_tests"] - (report.get("passed") or 0)
        _print(f"  {failed} failed; `{name} --details --result {submission}` prints which")


def _print_history(history: dict[str, Any]) -> None:
    entries = [entry for entry in history.get("entries") or [] if isinstance(entry, dict)]
    _print("", _RULE, "  Submission History", f"  Total submissions: {len(entries)}")
    _print(f"  Best pass rate: {_percent(history.get('best_pass_rate'))}")
    if history.get("best_score") is not None:
        _print(f"  Best score: {history['best_score']}")
    _print(_RULE, "")
    row = "  {:<14} {:<10} {:<8} {:<12} {:<10} {}"
    if entries:
        _print(row.format("ROUND", "STATUS", "VALID", "PASS_RATE", "SCORE", "SUMMARY"))
    for entry in entries:
        summary = " ".join(str(entry.get("summary") or entry.get("error") or "-").split())
        score, rate = entry.get("score"), entry.get("pass_rate")
        _print(
            row.format(
                str(entry.get("round")),
                str(entry.get("status")),
                "-" if rate is None else "no" if entry.get("valid") is False else "yes",
                "-" if rate is None else _percent(rate),
                "-" if score is None else str(score),
                summary if len(summary) <= 40 else summary[:37] + "...",
            )
        )


def _remember(submission: str, report: dict[str, Any]) -> None:
    """Note the result where SForge's tool does. Nothing depends on it, so it may fail."""
    try:
        try:
            with open(_STATE, encoding="utf-8") as file:  # noqa: PTH123
                state = json.load(file)
            known = state["submissions"]
        except (OSError, ValueError, KeyError, TypeError):
            state = {"best_pass_rate": 0, "best_score": None, "best_round": ""}
            known = state["submissions"] = []
        if any(entry.get("round") == submission for entry in known):
            return
        rate, score = report.get("pass_rate") or 0, report.get("score")
        known.append({"kind": "agent", "round": submission, "at": int(time.time()), "pass_rate": rate, "score": score})
        if report.get("valid") is not False and rate > (state.get("best_pass_rate") or 0):
            state.update(best_pass_rate=rate, best_round=submission, best_score=score)
        draft = f"{_STATE}.{os.getpid()}"
        with open(draft, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(state, file)
        os.replace(draft, _STATE)  # noqa: PTH105
    except (OSError, ValueError, AttributeError, TypeError):
        return


def _setting(name: str) -> str:
    value = os.environ.get("BELLJAR_" + name) or os.environ.get("SFORGE_" + name)
    if not value:
        raise SubmitError(f"BELLJAR_{name} is not set; run this inside the work sandbox of a task")
    return value


def _percent(rate: Any) -> str:
    return f"{int((rate or 0) * 1000) / 10}%"


def _print(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(_printable(line) + "\n")


def _printable(text: str) -> str:
    """Return a text without what a terminal would obey: submitted code has a say in it."""
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in text)


if __name__ == "__main__":
    for _stream in (sys.stdout, sys.stderr):
        _stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # an image may have no locale but C
    sys.exit(main(sys.argv))
