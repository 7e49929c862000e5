"""Puts a Markdown file under a pull request, or in the place of what it put there before.

Standard library only, and no word of the file is printed. Whatever goes wrong here, the job does not fail.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

MOST_CHARACTERS = 65_536
"""GitHub refuses a longer comment."""

MOST_PAGES = 50
FORBIDDEN = (401, 403, 404)
"""What GitHub answers to a token that may not do this; 404 where it may not even look."""

ATTEMPTS = 3
CUT = "\n\n(the rest is in the report, among the artifacts)\n"


class Refused(Exception):
    """GitHub did not do what it was asked."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}" if status else reason)
        self.status = status


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token goes to the host that was named, and to no other."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class GitHub:
    """The few requests that a comment takes."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._root = environ.get("GITHUB_API_URL", "https://api.github.com").rstrip("/")
        self._token = environ.get("GITHUB_TOKEN", "")
        self._opener = urllib.request.build_opener(_NoRedirect)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Give the answer's JSON; raises Refused, at once or, where GitHub is out of order, after a while."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._ask(method, path, body)
            except Refused as refused:
                # What may have been done is not done again: there would be two comments.
                if attempt == ATTEMPTS or method == "POST" or 0 < refused.status < 500:
                    raise
            time.sleep(attempt * float(os.environ.get("COMMENT_PAUSE") or 2))
        raise AssertionError("unreachable")

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        request = urllib.request.Request(
            self._root + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self._token}",
                "Accept": "application/vnd.github+json",
                "X-GitHub-Api-Version": "2022-11-28",
                "Content-Type": "application/json",
                "User-Agent": "agenteval-comment",
            },
        )
        try:
            with self._opener.open(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(error.code, str(error.reason)) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Refused(0, str(error)) from None


def pull_request(github: GitHub, repository: str, event: Mapping[str, Any], named: str) -> int | None:
    """Give the number of the pull request that is meant; None where there is none.

    That of a ``workflow_run`` is looked up by the branch that the event names: a fork's is not in the event,
    and an artifact of a fork's could name any.
    """
    if named:
        return int(named)
    number = (event.get("pull_request") or {}).get("number")
    run = event.get("workflow_run") or {}
    if number or not run:
        return number
    for pull in run.get("pull_requests") or ():
        return int(pull["number"])
    head = f"{run['head_repository']['owner']['login']}:{run['head_branch']}"
    pulls = github.ask("GET", f"/repos/{repository}/pulls?{urlencode({'head': head, 'state': 'open'})}")
    return next((pull["number"] for pull in pulls if pull["head"]["sha"] == run["head_sha"]), None)


def own_comment(github: GitHub, repository: str, number: int, marker: str) -> int | None:
    """Give the id of the comment that was made before: with the marker, and by the same account."""
    login = _login(github)
    for comment in _comments(github, repository, number):
        user = comment.get("user") or {}
        ours = user.get("login") == login if login else user.get("type") == "Bot"
        if ours and str(comment.get("body", "")).startswith(marker):
            return int(comment["id"])
    return None


def _login(github: GitHub) -> str:
    """Give the account of a personal token; a job's own token, a bot's, may not ask."""
    try:
        return str(github.ask("GET", "/user")["login"])
    except Refused:
        return ""


def _comments(github: GitHub, repository: str, number: int) -> Iterator[Mapping[str, Any]]:
    for page in range(1, MOST_PAGES + 1):
        path = f"/repos/{repository}/issues/{number}/comments?per_page=100&page={page}"
        comments = github.ask("GET", path)
        yield from comments
        if len(comments) < 100:
            return


def body_of(text: str, marker: str, event: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Give the comment with its hidden marker, its commit and its job, no longer than GitHub takes."""
    run = event.get("workflow_run") or {}
    head = (event.get("pull_request") or {}).get("head") or {}
    sha = str(run.get("head_sha") or head.get("sha") or environ.get("GITHUB_SHA", ""))
    server, repository = (environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY"))
    url = run.get("html_url") or f"{server}/{repository}/actions/runs/{environ.get('GITHUB_RUN_ID', '')}"
    footer = f"\n<sub>commit {sha[:8]}, [the run]({url}) has the report among its artifacts</sub>\n"
    room = MOST_CHARACTERS - len(marker) - len(footer) - len(CUT) - 2
    if len(text) > room:
        text = text[:room].rpartition("\n")[0] + CUT
    return f"{marker}\n{text}{footer}"


def post(environ: Mapping[str, str]) -> str:
    """Make the comment, or update it; gives what was done."""
    event = json.loads(Path(environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    repository, github = environ["GITHUB_REPOSITORY"], GitHub(environ)
    number = pull_request(github, repository, event, environ.get("PULL_REQUEST", ""))
    if number is None:
        return "no pull request found, so no comment; comment.md is among the artifacts"
    workflow = (event.get("workflow_run") or {}).get("name") or environ.get("GITHUB_WORKFLOW", "")
    marker = f"<!-- agenteval: {quote(workflow)}/{quote(environ.get('COMMENT_NAME', ''))} -->"
    text = Path(environ["COMMENT_FILE"]).read_text(encoding="utf-8", errors="replace")
    body = {"body": body_of(text, marker, event, environ)}
    before = own_comment(github, repository, number, marker)
    if before is None:
        github.ask("POST", f"/repos/{repository}/issues/{number}/comments", body)
        return f"commented on #{number}"
    github.ask("PATCH", f"/repos/{repository}/issues/comments/{before}", body)
    return f"updated the comment on #{number}"


def main() -> int:
    """Say what was done, or why it was not."""
    try:
        print(post(os.environ))
    except Refused as refused:
        if refused.status in FORBIDDEN:
            why = f"the token may not comment ({refused}). For pull requests from forks it is read-only"
            print(f"::notice title=Agent evals::{why}: docs/guides/github.md shows a workflow that can")
        else:
            print(f"::warning title=Agent evals::no comment: {' '.join(str(refused).split())}")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as broken:
        print(f"::warning title=Agent evals::no comment: {type(broken).__name__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
