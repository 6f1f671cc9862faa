"""Every benchmark runs, in its quick form, and its rows are whole. How fast they are is for `make bench` to say."""

import json
import math
import os
import shutil
from xml.etree import ElementTree

import pytest

from benchmarks import (
    changes,
    clouds,
    crowd,
    fanout,
    filesystem,
    fork,
    harness,
    local,
    measure,
    merge,
    operation,
    picture,
    runs,
    runs_langgraph,
    runs_load,
    scaling,
    swerex,
    toolbox,
)
from benchmarks.measure import Config, Row, table

QUICK = Config(quick=True)


def needs_peer(module):
    """Skip where the peer is not installed; in CI it must be, and the benchmark itself says what is missing."""
    if not os.environ.get("CI"):
        pytest.importorskip(module, reason="make bench")


def assert_whole(rows, least):
    assert len(rows) >= least
    assert len({row.what for row in rows}) == len(rows)
    for row in rows:
        assert row.unit in ("ms", "s", "MiB")
        assert all(math.isfinite(value) and value > 0 for value in (row.ours, row.peer or 1))
        assert row.verdict in ("", "met", "MISSED")
        assert row.what in table("rows", rows)


def test_the_local_benchmark_gives_whole_rows():
    [bench] = local.BENCH.values()
    assert_whole(measure.measured(bench, QUICK), 4)


def test_the_benchmark_beside_git_gives_whole_rows():
    [bench] = merge.BENCH.values()
    assert_whole(measure.measured(bench, QUICK), 2)


def test_the_benchmark_of_changes_gives_whole_rows():
    [bench] = changes.BENCH.values()
    assert_whole(measure.measured(bench, QUICK), 3)


@pytest.mark.parametrize("bench", [fork.local, pytest.param(fork.docker, marks=pytest.mark.docker)])
def test_the_benchmark_of_forks_gives_whole_rows(bench):
    assert_whole(measure.measured(bench, QUICK), 2)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bench", [fanout.local, pytest.param(fanout.docker, marks=pytest.mark.docker)])
def test_the_benchmark_of_fan_outs_gives_whole_rows(bench):
    assert_whole(measure.measured(bench, QUICK), 2)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("bench", "least"), [(runs.beside_celery, 4), (runs_load.bench, 4)], ids=["celery", "load"])
def test_a_benchmark_of_the_orchestration_gives_whole_rows(bench, least):
    assert_whole(measure.measured(bench, QUICK), least)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("bench", "least"),
    [(operation.idle, 6), (operation.api, 18), (scaling.workers, 4), (scaling.processes, 2)],
    ids=["idle", "load", "workers", "processes"],
)
def test_a_benchmark_of_operation_gives_whole_rows(bench, least):
    assert_whole(measure.measured(bench, QUICK), least)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bench", [crowd.local, pytest.param(crowd.docker, marks=pytest.mark.docker)])
def test_the_benchmark_of_many_sandboxes_gives_whole_rows_and_a_picture(bench, tmp_path):
    rows = measure.measured(bench, Config(quick=True, pictures=tmp_path))
    assert_whole(rows, 4)
    assert {row.what.split(": ")[1].split(",")[0] for row in rows} == {"3 idle (limit)", "3 busy (limit)"}
    [drawn] = tmp_path.glob("*.svg")
    curves = [one for one in ElementTree.parse(drawn).iter() if one.tag.endswith("polyline")]
    assert [len(one.attrib["points"].split()) for one in curves] == [4] * 4


class Fragile(crowd.Kind):
    """Of which there can be two."""

    def __init__(self):
        self.made = 0
        self.ended = False

    async def one_more(self, busy):
        if self.made == 2:
            raise crowd.Stopped("no more")
        self.made += 1

    async def end(self):
        self.ended = True


async def test_what_stopped_a_crowd_is_told_and_all_of_it_is_ended():
    kind = Fragile()
    made = await crowd.grown(kind, False, 5)
    assert (made.count, made.why, kind.ended) == (2, "no more", True)


async def test_a_crowd_leaves_a_share_of_the_memory(monkeypatch):
    monkeypatch.setattr(crowd, "LEFT", 1.0)
    made = await crowd.grown(Fragile(), False, 5)
    assert (made.count, made.why) == (0, "memory")


def test_a_picture_has_its_points_where_they_belong():
    drawn = ElementTree.fromstring(picture.svg("a & b", "x", "y", {"one": [(0, 0), (100, 50)]}))
    [line] = [one for one in drawn.iter() if one.tag.endswith("polyline")]
    low, high = picture.HEIGHT - picture.BOTTOM, picture.TOP
    assert line.attrib["points"] == f"{picture.LEFT}.0,{low}.0 {picture.WIDTH - picture.RIGHT}.0,{high}.0"


@pytest.mark.parametrize(("most", "end", "step"), [(100, 100, 20), (7, 8, 2), (301, 400, 100), (0.3, 0.3, 0.1)])
def test_an_axis_has_room_and_even_steps(most, end, step):
    axis = picture.Axis.to(most)
    assert (axis.end, axis.step) == (pytest.approx(end), pytest.approx(step))


@pytest.mark.timeout(900)  # with its installation, in CI
def test_the_benchmark_beside_langgraph_gives_whole_rows():
    if not os.environ.get("CI") and not runs_langgraph.installed():
        pytest.skip("langgraph dev is not installed: make bench")
    assert_whole(measure.measured(runs.beside_langgraph, QUICK), 6)


STARTS = ("create, the first", "create, a later one", "destroy")
"""What takes more requests of ours, because a helper is brought in, and an end is waited for."""
LONG = ("upload 10 MB", "download 10 MB")
"""Pieces of which more go together, the faster the machine is."""


@pytest.mark.timeout(900)  # with the installation of the peers, in CI
@pytest.mark.parametrize(
    ("bench", "least"),
    [pytest.param(clouds.modal, 38, marks=pytest.mark.docker, id="modal"), pytest.param(clouds.daytona, 52, id="daytona")],
)
def test_on_clouds_every_operation_of_a_backend_takes_fewer_requests_than_its_peer(bench, least):
    if not os.environ.get("CI") and not clouds.installed():
        pytest.skip("the peers are not installed: make bench")
    rows = measure.measured(bench, QUICK)
    assert len(rows) >= least
    assert len({row.what for row in rows}) == len(rows)
    assert {row.unit for row in rows} <= {"req", "msg", "KiB"}
    more = [row.what for row in rows if row.verdict == "MISSED" and row.what not in STARTS + LONG]
    assert more == []
    assert "create, the first" in table("rows", rows)


AGAINST_PEERS = [
    pytest.param(harness, "deepagents", 8, id="agent"),
    pytest.param(filesystem, "deepagents", 6 if shutil.which("rg") else 4, id="disk"),
    pytest.param(swerex, "swerex", 3, id="swe-rex", marks=pytest.mark.docker),
    pytest.param(toolbox, "deepagents", 13, id="toolbox", marks=pytest.mark.docker),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("script", "peer", "least"), AGAINST_PEERS)
def test_a_benchmark_against_a_peer_gives_whole_rows(script, peer, least):
    needs_peer(peer)
    [bench] = script.BENCH.values()
    rows = measure.measured(bench, QUICK)
    assert_whole(rows, least)
    assert all(row.ratio is not None for row in rows)


def test_a_row_says_whether_its_target_was_met():
    assert Row("a", "ms", 1, 30, at_least=25).verdict == "met"
    assert Row("a", "ms", 2, 30, at_least=25).verdict == "MISSED"
    assert Row("a", "s", 0.5, below=1).verdict == "met"
    assert Row("a", "s", 1.5, below=1).verdict == "MISSED"
    assert Row("a", "s", 1.5).verdict == ""


def test_a_call_that_fails_is_not_measured():
    class Failure:
        error = "Error: no such file"

    async def bench(_config):
        return [Row("a", "s", await measure.median(lambda: [Failure()], 1))]

    with pytest.raises(RuntimeError, match="no such file"):
        measure.measured(bench, QUICK)


def test_a_missing_peer_is_one_clear_message():
    with pytest.raises(SystemExit, match="make bench"):
        measure.need("no_such_peer", "no-such-peer")


def test_the_rows_can_be_had_as_json(tmp_path, capsys):
    async def bench(_config):
        return [Row("a", "ms", 1, 30, 25)]

    measure.run({"title": bench}, ["--quick", "--json", str(tmp_path / "rows.json")])
    [row] = json.loads((tmp_path / "rows.json").read_text())["title"]
    assert (row["what"], row["ratio"], row["verdict"]) == ("a", 30, "met")
    assert "title" in capsys.readouterr().out
