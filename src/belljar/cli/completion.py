"""`belljar completion`: scripts for the shells that people use."""

import click
from click.shell_completion import BashComplete, ShellComplete, add_completion_class, get_completion_class


@add_completion_class
class _Bash(BashComplete):
    """As click has it, but it does not run the `bash` that the PATH leads to for its version."""

    def source(self) -> str:
        return ShellComplete.source(self)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that teaches SHELL to complete belljar's commands.

    \b
    bash:  eval "$(belljar completion bash)"         in ~/.bashrc
    zsh:   eval "$(belljar completion zsh)"          in ~/.zshrc
    fish:  belljar completion fish > ~/.config/fish/completions/belljar.fish
    """
    script = get_completion_class(shell)
    if script is not None:
        click.echo(script(context.find_root().command, {}, "belljar", "_BELLJAR_COMPLETE").source())
