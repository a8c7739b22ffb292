"""`megareward --completion`: what bash needs to complete a command line."""

from megareward.envs.games import list_games
from megareward.experiments.plans import EXPERIMENTS
from megareward.rewards import METHODS
from megareward.training.presets import PRESETS

SCRIPT = """_megareward() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} known=
  case $before in
    --game) known="{games}" ;;
    --preset) known="auto {presets}" ;;
    --device) known="auto cpu cuda" ;;
    *) case $COMP_CWORD:${{COMP_WORDS[1]}} in
         1:*) known="{commands}" ;;
         2:train) known="{methods}" ;;
         2:experiment) known="{experiments}" ;;
       esac ;;
  esac
  COMPREPLY=($(compgen -W "$known" -- "$word"))
}}
complete -o default -F _megareward megareward"""
"""Where no words are known, bash completes file names, such as folders of runs."""


def script(commands: list[str]) -> str:
    """The script that `eval "$(megareward --completion)"` runs."""
    return SCRIPT.format(
        games=" ".join(game.name for game in list_games()),
        presets=" ".join(PRESETS),
        commands=" ".join(commands),
        methods=" ".join(METHODS),
        experiments=" ".join(EXPERIMENTS),
    )
