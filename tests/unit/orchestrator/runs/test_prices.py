"""What tokens cost, by the operator's table."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import BadInput
from orchestrator.runs.prices import PriceTable, load_prices

TABLE = """
models:
  "anthropic:claude-opus-*": {input: 15, output: 75, cache_read: 1.5, cache_write: 18.75}
  "anthropic:*": {input: 3, output: 15}
"""


@pytest.fixture
def prices(tmp_path: Path) -> PriceTable:
    path = tmp_path / "prices.yaml"
    path.write_text(TABLE)
    return load_prices(path)


def test_a_million_tokens_cost_their_price_in_millionths(prices: PriceTable) -> None:
    million = 1_000_000
    assert prices.cost("anthropic:x", given=million, made=million, cache_read=0, cache_write=0) == 18_000_000
    assert prices.cost("anthropic:x", given=10, made=1, cache_read=0, cache_write=0) == 45


def test_the_first_pattern_that_fits_holds_and_cached_input_has_its_own_price(prices: PriceTable) -> None:
    assert prices.cost("anthropic:claude-opus-5", given=1000, made=0, cache_read=600, cache_write=200) == 3000 + 900 + 3750


def test_cached_input_without_a_price_of_its_own_costs_what_input_costs(prices: PriceTable) -> None:
    assert prices.cost("anthropic:x", given=1000, made=0, cache_read=600, cache_write=200) == 3000


def test_a_model_that_is_not_in_the_table_has_no_cost(prices: PriceTable) -> None:
    assert prices.cost("openai:x", given=1, made=1, cache_read=0, cache_write=0) is None
    assert load_prices(None).cost("anthropic:x", given=1, made=1, cache_read=0, cache_write=0) is None


def test_counts_that_make_no_sense_give_no_credit(prices: PriceTable) -> None:
    assert prices.cost("anthropic:x", given=0, made=0, cache_read=10, cache_write=0) == 30


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models: {a: {input: -1, output: 1}}", "models.a.input"),
        ("models: {a: {input: .inf, output: 1}}", "models.a.input"),
        ("models: {a: {input: 1}}", "models.a.output"),
        ("prices: {}", "prices"),
        ("[1]", "price table"),
        ("models: [", "not valid YAML"),
    ],
)
def test_a_table_that_is_wrong_is_refused_and_says_where(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(BadInput, match=said):
        load_prices(path)


def test_a_table_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no such file"):
        load_prices(tmp_path / "nowhere.yaml")
