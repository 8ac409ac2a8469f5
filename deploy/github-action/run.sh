#!/usr/bin/env bash
# Runs commands on a timeline. A step of action.yml, which sets the variables COMMANDS, COMMAND_SHELL, OPTIONS and
# OPTION_....
set -euo pipefail

# As the runner does for its own steps.
case $COMMAND_SHELL in
    bash) template="bash --noprofile --norc -eo pipefail {0}" ;;
    sh) template="sh -e {0}" ;;
    python) template="python {0}" ;;
    *"{0}"*) template=$COMMAND_SHELL ;;
    *)
        echo "::error::shell: '$COMMAND_SHELL' is not known"
        echo "help: write bash, sh, python, or a command with {0} for the file that has the commands"
        exit 1
        ;;
esac

arguments=()
for name in date offset rate; do
    variable=OPTION_${name^^}
    if [ -n "${!variable}" ]; then arguments+=("--$name=${!variable}"); fi
    unset "$variable"
done
if ! words=$(xargs --no-run-if-empty printf '%s\n' <<<"$OPTIONS"); then
    echo "::error::options: the quotes in '$OPTIONS' do not match"
    exit 1
fi
if [ -n "$words" ]; then mapfile -t -O "${#arguments[@]}" arguments <<<"$words"; fi

# A wrong option is reported in one line, for the summary of the workflow run.
if ! said=$(eigentime run "${arguments[@]}" --help 2>&1 >/dev/null); then
    said=${said#error: }
    printf '::error::eigentime run: %s\n' "$said"
    exit 125
fi

file=$(mktemp "$RUNNER_TEMP/eigentime-XXXXXX")
trap 'rm "$file"' EXIT
printf '%s\n' "$COMMANDS" >"$file"
read -ra command <<<"$template"
unset COMMANDS COMMAND_SHELL OPTIONS
eigentime run "${arguments[@]}" -- "${command[@]//\{0\}/$file}"
