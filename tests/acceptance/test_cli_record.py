"""An agent is recorded once and replayed in CI, without its model."""

TASK = """
agent:
  prompt: What is in the workspace?
  model: scripted:script.yaml
"""
SCRIPT = """
turns:
  - tool_calls:
      - {id: make, name: write_file, args: {file_path: note.txt, content: a note}}
  - tool_calls:
      - {id: look, name: ls, args: {path: .}}
  - expect:
      - {contains: note.txt}
    text: There is a note.
"""


def test_a_recorded_agent_plays_again_without_its_model(anywhere, task, tmp_path):
    file = task(TASK, **{"script.yaml": SCRIPT})
    recorded = anywhere("run", file, "--model", "record:tape.yaml=scripted:script.yaml", "--out", tmp_path)
    assert recorded.returncode == 0, recorded.stderr
    assert (tmp_path / "tape.yaml").exists()

    (tmp_path / "script.yaml").unlink()
    replayed = anywhere("run", file, "--model", "replay:tape.yaml")
    assert replayed.returncode == 0, replayed.stderr
    assert "There is a note." in replayed.stdout

    file.write_text(TASK.replace("What is", "Who is"))
    changed = anywhere("run", file, "--model", "replay:tape.yaml")
    assert changed.returncode == 1
    assert "record it again" in changed.stderr + changed.stdout
