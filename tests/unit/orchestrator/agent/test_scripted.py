"""Model scripts: what they can say, how they fail, and what a hostile one cannot do."""

from __future__ import annotations

import time
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from orchestrator.agent.script import load_script
from orchestrator.agent.scripted import ScriptedChatModel, of_other_scripts
from orchestrator.agent.templates import Renderer, Result, TemplateError, parse_template
from orchestrator.errors import BadInput, TaskFailed


def model(script: str) -> ScriptedChatModel:
    return ScriptedChatModel(script=load_script(script.encode(), "s.yaml"), file="s.yaml")


def complaint(script: str) -> str:
    with pytest.raises(BadInput) as caught:
        load_script(script.encode(), "s.yaml")
    return str(caught.value)


def rendered(text: str, **results: str) -> str:
    found = {key: Result(value, "success") for key, value in results.items()}
    return Renderer("the prompt", found).render(parse_template(text))


def converse(script: str, *rounds: dict[str, str | tuple[str, str]]) -> AIMessage:
    """Play the script; each round is the results of the calls of the turn before. The last answer comes back."""
    chat = model(script)
    messages: list[BaseMessage] = [SystemMessage("s"), HumanMessage("fix the bug")]
    for results in rounds:
        messages.append(chat.invoke(messages))
        for call_id, value in results.items():
            text, status = value if isinstance(value, tuple) else (value, "success")
            messages.append(ToolMessage(text, tool_call_id=call_id, status=status))
    return chat.invoke(messages)


CALL = "tool_calls: [{id: run, name: execute, args: {command: x}}]"


def test_turns_come_one_after_the_other() -> None:
    answer = converse(f"turns: [{{text: one, {CALL}}}, {{text: two}}]", {"run": ""})
    assert (answer.text, answer.tool_calls) == ("two", [])


def test_the_turn_is_read_off_the_conversation_and_not_remembered() -> None:
    script = f"turns: [{{text: one, {CALL}}}, {{text: two}}]"
    history = [HumanMessage("x"), model(script).invoke([HumanMessage("x")]), ToolMessage("", tool_call_id="run")]
    assert model(script).invoke(history).text == "two"
    assert model(script).invoke(history[1:]).text == "two", "also when old messages were summarized away"


def test_calls_have_ids_even_if_the_script_gives_none() -> None:
    answer = converse("turns: [{tool_calls: [{name: ls}, {name: ls, id: here}, {name: ls}]}]")
    assert [call["id"] for call in answer.tool_calls] == ["turn1_1", "here", "turn1_3"]


def test_a_script_that_runs_out_fails_the_task() -> None:
    with pytest.raises(TaskFailed, match=r"^s.yaml ran out after 1 turn: the agent asked for another$"):
        converse(f"turns: [{{{CALL}}}]", {"run": ""})


def test_templates_stand_for_what_was_said_before() -> None:
    answer = converse(
        f"""
        turns:
          - {CALL}
          - text: "{{{{ results.run.match('Ran (\\\\d+)') }}}} ran, {{{{results.run.status}}}}: {{{{ prompt }}}}"
            tool_calls:
              - {{name: write_file, args: {{lines: ["{{{{ results.run.text }}}}"], n: 3, content: "a{{{{ '{{{{' }}}}b"}}}}
        """,
        {"run": "Ran 8 tests"},
    )
    assert answer.text == "8 ran, success: fix the bug"
    assert answer.tool_calls[0]["args"] == {"lines": ["Ran 8 tests"], "n": 3, "content": "a{{b"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ results.a.match('^b.*') }}", "b c"),
        ("{{ results.a.match('(\\w) (\\w)', 2) }}", "c"),
        ('{{results.a.match("it\'s (.)")}}', "x"),
        ("{{ results.a.match('x{1}') }}", "x"),
        ("a { b } {} $x", "a { b } {} $x"),
        ("{{ '{{ prompt }}' }}", "{{ prompt }}"),
        ("", ""),
    ],
)
def test_a_template_has_a_value(text: str, value: str) -> None:
    assert rendered(text, a="a\nb c\nit's x") == value


def test_the_value_of_a_reference_is_not_a_template_again() -> None:
    assert rendered("{{ results.a.text }}", a="{{ prompt }}") == "{{ prompt }}"


@pytest.mark.parametrize(
    "hostile",
    [
        "{{ results.a.__class__ }}",
        "{{ results.a.text.__class__.__mro__ }}",
        "{{ results.__init__.__globals__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ prompt.format(1) }}",
        "{{ prompt.text }}",
        "{{ prompt.match('a').match('b') }}",
        "{{ results.a.text.match('a') }}",
        "{{ prompt * 1000000000 }}",
        "{{ range(1000000000) }}",
        "{{ results['a'] }}",
        "{{ cycler.__init__ }}",
        "{{ results.a.match('x'.__class__) }}",
        "{{ 1 + 1 }}",
        "{{",
        "{{ prompt",
    ],
)
def test_a_template_can_do_nothing_but_refer(hostile: str) -> None:
    with pytest.raises(ValueError, match="is not a reference"):
        parse_template(hostile)


def test_a_regular_expression_cannot_run_for_long() -> None:
    began = time.monotonic()
    with pytest.raises(TemplateError, match="takes too long"):
        rendered("{{ results.a.match('(a|a|aa)+$') }}" * 100, a="a" * 60 + "b")
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("pattern", ["(?R)", "((?1)a|b)", "(?P<x>a)(?&x)", "(" * 450 + ")" * 450, "x" * 2000])
def test_a_regular_expression_cannot_take_endless_memory(pattern: str) -> None:
    with pytest.raises(ValueError, match="regular expression"):
        parse_template("{{ results.a.match('" + pattern + "') }}")


def test_references_cannot_multiply_into_endless_text() -> None:
    with pytest.raises(TemplateError, match="expand to more than"):
        rendered("{{ results.a.text }}" * 1000, a="x" * 60_000)


def test_a_reference_without_a_value_fails_the_task() -> None:
    script = f"turns: [{{{CALL}}}, {{text: \"{{{{ results.run.match('Ran') }}}}\"}}]"
    with pytest.raises(TaskFailed, match=r"^s\.yaml, turn 2: nothing in the result of 'run' matches 'Ran'$"):
        converse(script, {"run": "no"})


@pytest.mark.parametrize(
    ("expect", "result"),
    [
        ("{contains: two}", "one\ntwo"),
        ("{contains: [one, two]}", "one\ntwo"),
        ("{result: run, not_contains: three}", "one"),
        ("{matches: '^t.o$'}", "one\ntwo"),
        ("{status: error}", ("no", "error")),
        ("[{contains: one}, {status: success}]", "one"),
    ],
)
def test_an_expectation_that_holds_lets_the_run_go_on(expect: str, result: Any) -> None:
    assert converse(f"turns: [{{{CALL}}}, {{text: fine, expect: {expect}}}]", {"run": result}).text == "fine"


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ("{contains: [ne, two]}", "expected the result of 'run' to contain \"two\"; what came was:\n--- the result of 'run'"),
        ("{not_contains: one}", 'not to contain "one"'),
        ("{matches: '^ne'}", "to match '^ne'"),
        ("{status: error}", "to have the status 'error'"),
    ],
)
def test_an_expectation_that_does_not_hold_fails_the_task(expect: str, said: str) -> None:
    with pytest.raises(TaskFailed) as caught:
        converse(f"turns: [{{{CALL}}}, {{text: fine, expect: {expect}}}]", {"run": "one"})
    assert str(caught.value).startswith("s.yaml, turn 2: expected the result of 'run'")
    assert said in str(caught.value)
    assert str(caught.value).endswith("(success):\none")


def test_without_a_name_an_expectation_is_about_the_results_of_the_last_turn() -> None:
    script = """
        turns:
          - tool_calls: [{id: a, name: ls}]
          - tool_calls: [{id: b, name: ls}, {id: c, name: ls}]
          - {text: fine, expect: [{contains: new}, {not_contains: old}, {result: a, contains: old}]}
    """
    assert converse(script, {"a": "old"}, {"b": "new", "c": "newer"}).text == "fine"


def test_in_the_first_turn_an_expectation_is_about_the_prompt() -> None:
    assert converse("turns: [{expect: {contains: the bug}, text: fine}]").text == "fine"
    with pytest.raises(TaskFailed, match="expected the prompt to contain"):
        converse("turns: [{expect: {contains: a feature}, text: fine}]")


def test_what_a_failed_expectation_shows_is_clipped() -> None:
    with pytest.raises(TaskFailed) as caught:
        converse(f"turns: [{{{CALL}}}, {{text: fine, expect: {{contains: y}}}}]", {"run": "x" * 10**6})
    assert len(str(caught.value)) < 3000


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("turns: []", "s.yaml:1: turns: tuple should have at least 1 item"),
        ("turn: []", "s.yaml:1: turn: unknown key; did you mean 'turns'?"),
        ("turns: [{txt: x}]", "s.yaml:1: turns.0.txt: unknown key; did you mean 'text'?"),
        ("turns: [{expect: {containz: x}}]", "containz: unknown key; did you mean 'contains'?"),
        ("turns: [{expect: {result: a}}]", "expects nothing: give contains, not_contains, matches or status"),
        ("turns: [{text: '{{ results.a.text }}'}]", "turn 1: no earlier turn has a tool call with the id 'a'"),
        ("turns: [{text: a}, {text: b}]", "turn 1 calls no tool, so the agent ends there"),
        ("turns: [{tool_calls: [{id: a, name: ls}, {id: a, name: ls}]}]", "turn 1: the tool call id 'a' is there twice"),
        ("turns: [{tool_calls: [{id: 'a b', name: ls}]}]", "turns.0.tool_calls.0.id: "),
        ("turns: [{tool_calls: [{name: ls, args: {a: ['{{ evil() }}']}}]}]", "'{{ evil() }}' is not a reference"),
        ("turns: [{expect: {matches: '('}}]", "'(' is not a regular expression: missing )"),
        ("turns: [{text: \"{{ results.a.match('x', 1) }}\"}]", "has 0 groups, so group 1 has no value"),
        ("just text", "s.yaml: "),
        ("turns: [", ": not valid YAML: "),
    ],
)
def test_what_is_wrong_with_a_script_is_told_before_it_runs(script: str, said: str) -> None:
    assert said in complaint(script)


def test_a_summary_uses_up_no_turn_of_the_script() -> None:
    scripted = model("turns: [{text: first}]")
    summary = scripted.invoke([HumanMessage("Sum up.")], {"metadata": {"lc_source": "summarization"}})
    assert "does not sum up" in str(summary.text)
    assert scripted.invoke([HumanMessage("go")]).text == "first"


PARTS = f"""
turns:
  - text: main
    {CALL}
  - text: main is done
subagents:
  - when: ^Mend [a-z]+$
    turns:
      - text: "{{{{ prompt.match('^Mend (.+)') }}}} it is"
        tool_calls: [{{id: run, name: execute, args: {{file: "{{{{ prompt.match('Mend (.)(.*)', 2) }}}}"}}}}]
      - text: "mended: {{{{ results.run.text }}}}"
        expect: {{contains: fine}}
  - when: Mend
    turns: [{{text: never both}}]
"""


def test_a_subagent_follows_the_first_part_that_fits_what_it_was_asked() -> None:
    chat = model(PARTS)
    assert chat.invoke([HumanMessage("Please: mend it")]).text == "main"
    assert chat.invoke([HumanMessage("Mend a and b")]).text == "never both"
    answer = chat.invoke([SystemMessage("s"), HumanMessage("The task:\nMend calc")])
    assert answer.text == "calc it is"
    assert answer.tool_calls[0]["args"] == {"file": "alc"}
    assert answer.tool_calls[0]["id"] == "run", "ids are a part's own"


def test_a_subagent_stays_with_its_part_though_its_prompt_was_summed_up() -> None:
    chat = model(PARTS)
    began = chat.invoke([HumanMessage("Mend calc")])
    result = ToolMessage("fine", tool_call_id="run")
    assert chat.invoke([HumanMessage("Mend calc"), began, result]).text == "mended: fine"
    assert chat.invoke([HumanMessage("A summary."), began, result]).text == "mended: fine"


def test_the_next_run_of_a_thread_chooses_its_part_anew() -> None:
    chat = model(PARTS)
    earlier = of_other_scripts([HumanMessage("Mend calc"), chat.invoke([HumanMessage("Mend calc")])])
    assert chat.invoke([*earlier, HumanMessage("go on")]).text == "main"


def test_what_fails_in_a_part_is_told_with_its_expression() -> None:
    chat = model(PARTS)
    began = chat.invoke([HumanMessage("Mend calc")])
    with pytest.raises(TaskFailed, match=r"^s\.yaml, of '\^Mend \[a-z\]\+\$', turn 2: expected the result of 'run'"):
        chat.invoke([HumanMessage("Mend calc"), began, ToolMessage("broken", tool_call_id="run")])
    with pytest.raises(TaskFailed, match=r"^s\.yaml, of 'Mend' ran out after 1 turn: the agent asked for another$"):
        chat.invoke([HumanMessage("Mend it all"), chat.invoke([HumanMessage("Mend it all")])])


def test_a_prompt_without_a_match_fails_the_task() -> None:
    with pytest.raises(TaskFailed, match=r"^s\.yaml, turn 1: nothing in the prompt matches 'Mend'$"):
        converse("turns: [{text: \"{{ prompt.match('Mend') }}\"}]")


def test_a_slow_expression_of_a_part_fails_the_task() -> None:
    chat = model("turns: [{text: a}]\nsubagents: [{when: '(a|a|aa)+$', turns: [{text: b}]}]")
    with pytest.raises(TaskFailed, match=r"^s\.yaml, of '\(a\|a\|aa\)\+\$': the regular expression .* takes too long"):
        chat.invoke([HumanMessage("a" * 60 + "b")])


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("{when: '(', turns: [{text: a}]}", "s.yaml:2: subagents.0.when: '(' is not a regular expression"),
        ("{when: a, turns: []}", "subagents.0.turns: "),
        ("{turns: [{text: a}]}", "subagents.0.when: is missing"),
        ("{when: a, turns: [{text: a}, {text: b}]}", "s.yaml:2: subagents.0: of 'a': turn 1 calls no tool"),
        ("{when: a, turns: [{text: '{{ results.top.text }}'}]}", "of 'a': turn 1: no earlier turn has a tool call with the id"),
        ("{when: a, turn: [{text: a}]}", "subagents.0.turn: unknown key; did you mean 'turns'?"),
    ],
)
def test_what_is_wrong_with_a_part_is_said_with_its_place(part: str, said: str) -> None:
    assert said in complaint(f"turns: [{{tool_calls: [{{id: top, name: ls}}]}}, {{text: a}}]\nsubagents: [{part}]")
