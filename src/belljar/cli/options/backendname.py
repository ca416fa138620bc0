"""The name of a backend, as an argument. It is looked up when it is used, not to print help."""

from typing import TYPE_CHECKING

import click

from belljar.backends import registry

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class BackendName(click.ParamType[str]):
    """The name of a backend that is there."""

    name = "backend"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        """Name those that everybody has."""
        return f"[{'|'.join(registry.BUILT_IN)}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a name that no backend has."""
        try:
            return registry.find(value).name
        except registry.UnknownBackendError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG002
        """Complete it."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - for shells that ask

        return [CompletionItem(name) for name in registry.names() if name.startswith(incomplete)]
