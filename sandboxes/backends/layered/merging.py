"""The answers of many backends to one search as one answer."""

from __future__ import annotations

from collections.abc import Sequence

from sandboxes import protocol as p
from sandboxes.toolbox.helper.search import MATCHES


def merged_grep(answers: Sequence[p.GrepResult], max_count: int | None) -> p.GrepResult:
    """All matches in order of path and line, at most `max_count`. An error stands only when nobody had an answer.

    What one backend found is not lost by another's failure: the result is `truncated` then.
    """
    good = [answer for answer in answers if answer.error is None]
    if answers and not good:
        return p.GrepResult(error=answers[0].error)
    found = {(match["path"], match["line"]): match for answer in good for match in answer.matches or []}
    limit = MATCHES if max_count is None else max(0, min(max_count, MATCHES))
    ordered = [found[key] for key in sorted(found)]
    incomplete = len(good) < len(answers) or any(answer.truncated for answer in good)
    return p.GrepResult(matches=ordered[:limit], truncated=incomplete or len(ordered) > limit)


def merged_glob(answers: Sequence[p.GlobResult]) -> p.GlobResult:
    """All files in order of path. An error stands only when nobody had an answer; see `merged_grep`."""
    good = [answer for answer in answers if answer.error is None]
    if answers and not good:
        return p.GlobResult(error=answers[0].error)
    found = {info["path"]: info for answer in good for info in answer.matches or []}
    ordered = [found[path] for path in sorted(found)]
    reasons = [answer.truncation_reason for answer in good if answer.truncated]
    if len(good) < len(answers):
        reasons.append("unreadable")
    if len(ordered) > MATCHES:
        reasons.append("budget")
    return p.GlobResult(
        matches=ordered[:MATCHES], truncated=bool(reasons), truncation_reason=reasons[0] if reasons else None
    )
