"""`belljar completion`: scripts for the shells that people use."""

import click
from click.shell_completion import get_completion_class


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
