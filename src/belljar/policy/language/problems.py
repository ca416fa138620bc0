"""What is wrong with a document, or odd about it: where, what, and what to do."""

from collections.abc import Iterable
from typing import NamedTuple

from belljar.errors import BelljarError


class Problem(NamedTuple):
    """One finding. `where` is a path such as ``egress.allowed_domains[3]``, empty for the document as a whole."""

    where: str
    message: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else f"the policy {self.message}"


class InvalidPolicyError(BelljarError):
    """A document that is refused, with every reason for it at once."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
