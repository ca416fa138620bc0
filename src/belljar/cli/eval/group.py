"""The group `belljar eval`, whose commands are imported when they are called."""

import click

from belljar.cli.lazy import LazyGroup, Subcommand


@click.group(
    "eval",
    cls=LazyGroup,
    subcommands={
        "run": Subcommand("belljar.cli.eval.run", "run", "Run an agent on tasks, and grade its work."),
        "score": Subcommand("belljar.cli.eval.score", "score", "Grade an archive."),
        "serve": Subcommand("belljar.cli.eval.serve", "serve", "Serve a judge for runs on other machines."),
        "show": Subcommand("belljar.cli.eval.show", "show", "Show the results of a run."),
        "list": Subcommand("belljar.cli.eval.list_tasks", "list_", "List the tasks of a directory."),
        "check": Subcommand("belljar.cli.eval.check", "check", "Check that a task is fit to be evaluated."),
        "init": Subcommand("belljar.cli.eval.init", "init", "Write a benchmark to begin with."),
        "agents": Subcommand("belljar.cli.eval.agents", "agents", "List the agents that are built in."),
    },
)
def eval_() -> None:
    """Evaluate agents on tasks, in sealed sandboxes.

    A task is a JSON file in SForge's format, beside the BENCHMARK.yaml of its directory.
    """
