"""What tokens cost, by a table that the operator gives. None is built in: prices change, and nobody would notice."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.errors import BadInput
from orchestrator.yamlfile import read_yaml

Price = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]
"""USD for a million tokens, which is millionths of a USD for one."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelPrice(_Strict):
    """Prices of one kind of model."""

    input: Price
    output: Price
    cache_read: Price | None = None
    """Of input that the provider had in its cache. None: as any input."""
    cache_write: Price | None = None
    """Of input that the provider has put into its cache. None: as any input."""


class PriceTable(_Strict):
    """`models` maps patterns (`anthropic:claude-*`) to prices; the first that fits a model's `provider:name` holds."""

    models: dict[str, ModelPrice] = Field(default_factory=dict)

    def cost(self, model: str, *, given: int, made: int, cache_read: int, cache_write: int) -> int | None:
        """Millionths of a USD for so many tokens; None for a model that is not in the table. `given` includes the cached."""
        price = next((price for pattern, price in self.models.items() if fnmatchcase(model, pattern)), None)
        if price is None:
            return None
        read = price.input if price.cache_read is None else price.cache_read
        write = price.input if price.cache_write is None else price.cache_write
        plain = max(0, given - cache_read - cache_write)
        return round(plain * price.input + cache_read * read + cache_write * write + made * price.output)


def load_prices(path: Path | None) -> PriceTable:
    """The table in a YAML file; an empty one when there is no file. Raises `BadInput` with what is wrong in it."""
    if path is None:
        return PriceTable()
    try:
        return PriceTable.model_validate(read_yaml(path).value)
    except ValidationError as exc:
        wrong = [f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in exc.errors(include_url=False)]
        raise BadInput(f"{path}: this is no price table: {'; '.join(wrong)}") from exc
