#!/bin/sh
# Started by the programs called `moved`: sleeps for this many seconds.
echo "child_date=$(date +%s)"
echo "child begin"
sleep "$1"
echo "child end"
