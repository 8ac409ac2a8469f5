#!/bin/sh
# What is tried wherever Eigentime is installed: session.sh PROGRAM..., each of which prints a date as
# `date -u +%F` does. It uses nothing but a shell and these.
set -eu

fail() { echo "session: $*" >&2; exit 1; }

said() { # EXPECTED COMMAND...
    expected=$1
    shift
    found=$("$@") || fail "'$*' ended with $?"
    [ "$found" = "$expected" ] || fail "'$*' printed '$found' instead of '$expected'"
}

for program; do
    # Words, not one: a program may come with arguments.
    # shellcheck disable=SC2086
    said 2038-01-19 eigentime run --date 2038-01-19T03:14:00Z -- $program
    eigentime ctl create shop --date 2038-01-19T03:14:00Z
    eigentime ctl leap shop 30d
    # shellcheck disable=SC2086
    said 2038-02-18 eigentime run --timeline shop -- $program
    eigentime ctl rm shop
done
[ -n "$(eigentime doctor)" ] || fail "the doctor says nothing"
said "eigentime-report is neither" sh -c 'eigentime report 2>&1 | grep -o "eigentime-report is neither"'
eigentime-probe --version
eigentime-path --version
echo "session: done"
